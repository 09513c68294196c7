import path from 'node:path'
import { afterAll, describe, it } from 'vitest'
import { buildRunner } from '../../../../../engine/src/runner/build-runner.ts'
import { conformance, posixCommands } from '../../../testing/index.ts'
import { leftoversOf, sshdProgram, startSshd, type TestSshd } from '../test-helper.ts'

// The same host and the same kit as in conformance.test.ts, with our runner copied over.
describe.skipIf(!sshdProgram)('a real OpenSSH server, and our runner', () => {
  let server: Promise<TestSshd> | undefined
  const sshd = () => {
    server ??= startSshd({ ordinary: process.getuid?.() === 0 })
    return server
  }
  const provider = async () => (await sshd()).provider({ runner: await buildRunner() })
  afterAll(async () => (await server)?.[Symbol.asyncDispose]())

  conformance({
    title: 'conformance: ssh with the runner (isolation: none)',
    runner: { describe, it, afterAll },
    provider,
    reopen: provider,
    commands: posixCommands({ server: 'python3' }),
    leftovers: async (sandboxId) => leftoversOf(path.join((await sshd()).home, 'sandkasten'))(sandboxId),
  })
})

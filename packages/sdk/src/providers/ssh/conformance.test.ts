import path from 'node:path'
import { afterAll, describe, it } from 'vitest'
import { conformance, posixCommands } from '../../testing/index.ts'
import { leftoversOf, sshdProgram, startSshd, type TestSshd } from './test-helper.ts'

// Uses an ordinary account when the tests run as root.
describe.skipIf(!sshdProgram)('a real OpenSSH server', () => {
  let server: Promise<TestSshd> | undefined
  const sshd = () => {
    server ??= startSshd({ ordinary: process.getuid?.() === 0 })
    return server
  }
  afterAll(async () => (await server)?.[Symbol.asyncDispose]())

  conformance({
    title: 'conformance: ssh (isolation: none)',
    runner: { describe, it, afterAll },
    provider: async () => (await sshd()).provider(),
    reopen: async () => (await sshd()).provider(),
    commands: posixCommands({ server: 'python3' }),
    leftovers: async (sandboxId) => leftoversOf(path.join((await sshd()).home, 'sandkasten'))(sandboxId),
  })
})

import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { sshdProgram, startSshd } from '../../packages/sdk/src/providers/ssh/test-helper.ts'

it.skipIf(!sshdProgram)('the example of docs/ssh.md runs against a real server', async () => {
  await using sshd = await startSshd({ ordinary: process.getuid?.() === 0 })
  const env = {
    PATH: process.env.PATH,
    HOST: '127.0.0.1',
    PORT: String(sshd.port),
    ACCOUNT: sshd.username,
    KEY: sshd.keyFile,
    KNOWN_HOSTS: sshd.knownHosts,
  }
  const file = path.join(import.meta.dirname, 'build-host.ts')
  const { stdout } = await promisify(execFile)(process.execPath, ['--conditions=sandkasten-source', file], {
    env,
  })
  expect(stdout).toBe('hello from this machine\n\nbuilt\n 3\n')
})

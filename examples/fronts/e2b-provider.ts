import { E2BProvider } from '@sandkasten/sdk/e2b'

// Without options: E2B_API_KEY, and for another place than E2B's own E2B_API_URL and E2B_SANDBOX_URL.
const provider = new E2BProvider()
const sandbox = await provider.create({ lifetimeMs: 10 * 60_000, labels: { project: 'mine' } })
await sandbox.files.writeFile('note.txt', 'kept')
await sandbox.stop()
await sandbox.start()
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'cat', args: ['note.txt'] })
console.log(exitCode, stdout)
await sandbox.destroy()

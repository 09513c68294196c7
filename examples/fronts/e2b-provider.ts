import { E2BProvider } from '@sandkasten/sdk/e2b'

// Reads E2B_API_KEY and, for another address than E2B's cloud, E2B_API_URL and E2B_SANDBOX_URL.
const provider = new E2BProvider()
const sandbox = await provider.create({ lifetimeMs: 10 * 60_000, labels: { project: 'mine' } })
await sandbox.files.writeFile('note.txt', 'kept')
await sandbox.stop()
await sandbox.start()
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'cat', args: ['note.txt'] })
console.log(exitCode, stdout)
await sandbox.destroy()

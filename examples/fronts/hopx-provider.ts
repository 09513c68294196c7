import { HopxProvider } from '@sandkasten/sdk/hopx'

// Reads HOPX_API_KEY and, for another address than Hopx's cloud, HOPX_BASE_URL.
const provider = new HopxProvider()
const sandbox = await provider.create({ lifetimeMs: 10 * 60_000, labels: { project: 'mine' } })
await sandbox.files.writeFile('note.txt', 'kept')
await sandbox.pause()
await sandbox.resume()
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'cat', args: ['note.txt'] })
console.log(exitCode, stdout)
await sandbox.destroy()

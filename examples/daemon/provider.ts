import { DaemonProvider } from '@sandkasten/sdk/daemon'

// Reads SANDKASTEN_URL and SANDKASTEN_API_KEY.
const provider = new DaemonProvider()
const sandbox = await provider.create({ envVars: { GREETING: 'Hello' }, lifetimeMs: 600_000 })
const { stdout } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo "$GREETING from afar"'] })
console.log(stdout.trim())
await sandbox.destroy()

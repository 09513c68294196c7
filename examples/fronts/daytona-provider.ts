import { keepAlive } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'

// Reads DAYTONA_API_KEY and, for another address than Daytona's cloud, DAYTONA_API_URL.
const provider = new DaytonaProvider()
const sandbox = await provider.create({
  name: 'my-agent',
  envVars: { GREETING: 'Hello' },
  providerOptions: { autoStopInterval: 30 },
})
const { stdout, stderr } = await sandbox.runCommand({
  cmd: 'sh',
  args: ['-c', 'echo "$GREETING from afar"; echo apart >&2'],
})
console.log(stdout.trim(), '|', stderr.trim())

// A background process does not count as activity. keepAlive reports activity until you stop it.
const keeper = keepAlive(sandbox)
await (await sandbox.spawn({ cmd: 'sleep', args: ['1'], detached: true })).wait()
await keeper.stop()
await sandbox.destroy()

import { keepAlive } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'

// Reads DAYTONA_API_KEY, and DAYTONA_API_URL if it is not the vendor's cloud.
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

// Background work does not count as activity, so the sandbox would stop when idle. The heartbeat prevents that.
const heart = keepAlive(sandbox)
await (await sandbox.spawn({ cmd: 'sleep', args: ['1'], detached: true })).wait()
await heart.stop()
await sandbox.destroy()

import { keepAlive } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'

// Without options: DAYTONA_API_KEY, and DAYTONA_API_URL where it is not the vendor's cloud.
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

// Work in the background is no use of it, and it would be stopped after the idle time: this is its heartbeat.
const heart = keepAlive(sandbox)
await (await sandbox.spawn({ cmd: 'sleep', args: ['1'], detached: true })).wait()
await heart.stop()
await sandbox.destroy()

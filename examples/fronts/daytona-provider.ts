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

// Work that takes longer than the idle time, in the background: this is the vendor's heartbeat.
await provider.refreshActivity(sandbox.id)
await sandbox.destroy()

import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'

// Programs are functions.
const clock = new ManualClock(0)
const provider = new MemoryProvider({ clock, seed: 'mem' })
provider.command('build', async ({ args, stdout }) => {
  await stdout.write(`built ${args.join(' ')}\n`)
  return 0
})
const sandbox = await provider.create({ lifetimeMs: 60_000 })
console.log(sandbox.id, (await sandbox.runCommand({ cmd: 'build', args: ['app'] })).stdout.trim())
console.log(provider.calls.map(({ cmd }) => cmd))

// Inject a failure.
provider.fault({ on: 'create', error: 'quota_exceeded', times: 1 })
console.log(await provider.create().catch((error) => error.code))

// Let time pass.
await clock.advance(60_000)
console.log(await sandbox.status())

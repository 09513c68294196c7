import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'
import { runConformance } from '@sandkasten/sdk/testing'

// Your own tests: no machine, no clock, no network. Programs are functions.
const clock = new ManualClock(0)
const provider = new MemoryProvider({ clock, seed: 'mem' })
provider.command('build', async ({ args, stdout }) => {
  await stdout.write(`built ${args.join(' ')}\n`)
  return 0
})
const sandbox = await provider.create({ lifetimeMs: 60_000 })
console.log(sandbox.id, (await sandbox.runCommand({ cmd: 'build', args: ['app'] })).stdout.trim())
console.log(provider.calls.map(({ cmd }) => cmd))

// Failures when you want them.
provider.fault({ on: 'create', error: 'quota_exceeded', times: 1 })
console.log(await provider.create().catch((error) => error.code))

// Time passes when you say so.
await clock.advance(60_000)
console.log(await sandbox.status())

// A provider of your own: run the kit on it. Here, a few behaviours on this one.
const report = await runConformance({ provider: () => new MemoryProvider(), only: ['lifecycle-never'] })
console.log(report.failed.length)

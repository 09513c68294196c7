import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'
import { memoryCommands, runConformance } from '@sandkasten/sdk/testing'

// Tests without a machine, a clock or a network. Programs are functions.
const clock = new ManualClock(0)
const provider = new MemoryProvider({ clock, seed: 'mem' })
provider.command('build', async ({ args, stdout }) => {
  await stdout.write(`built ${args.join(' ')}\n`)
  return 0
})
const sandbox = await provider.create({ lifetimeMs: 60_000 })
console.log(sandbox.id, (await sandbox.runCommand({ cmd: 'build', args: ['app'] })).stdout.trim())
console.log(provider.calls.map(({ cmd }) => cmd))

// Simulated failures.
provider.fault({ on: 'create', error: 'quota_exceeded', times: 1 })
console.log(await provider.create().catch((error) => error.code))

// Simulated time.
await clock.advance(60_000)
console.log(await sandbox.status())

// Test your own provider: the kit runs every behaviour of the contract on it. Here, one group of them.
const own = new MemoryProvider()
const report = await runConformance({
  provider: () => own,
  reopen: () => own.reopen(), // opens the same sandboxes as another process would
  commands: memoryCommands(own), // posixCommands() for sandboxes with a real `sh`
  without: { server: 'no network', leftovers: 'nothing to look at from outside' },
  only: ['exit codes and signals'],
})
console.log(report.passed > 10, report.failed)

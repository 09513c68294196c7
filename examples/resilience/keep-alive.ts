import { keepAlive } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'

// The memory provider and its clock make this example deterministic. With a real provider, leave `clock` out.
const clock = new ManualClock(Date.parse('2026-01-01T12:00:00Z'))
const provider = new MemoryProvider({ clock, seed: 'example' })
const sandbox = await provider.create({ lifetimeMs: 5 * 60_000 })

{
  // The sandbox lives until this block ends, at most two hours. Its disk is saved before it ends.
  await using keeper = keepAlive(sandbox, {
    clock,
    leaseMs: 10 * 60_000,
    maxMs: 2 * 60 * 60_000,
    autoSnapshot: true,
    onError: (error, { retryInMs }) => console.log('extending failed:', error, retryInMs),
    onSnapshot: (snapshotId) => console.log('saved:', snapshotId),
  })
  await clock.advance(60 * 60_000)
  console.log(await sandbox.status(), (await sandbox.info()).expiresAt?.toISOString())

  await clock.advance(70 * 60_000)
  console.log(await keeper.ended, await sandbox.status())
}

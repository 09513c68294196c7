import { failover, keepAlive, retry, withRetry } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'

// Two providers whose failures and whose time are in our hands; with real ones, leave `clock` out.
const clock = new ManualClock(Date.parse('2026-01-01T12:00:00Z'))
const first = new MemoryProvider({ clock, seed: 'first' })
const second = new MemoryProvider({ clock, seed: 'second' })

// Calls that may be made twice are, when the error table says that it may help. Commands never are.
const patient = withRetry(first, { baseMs: 1, onRetry: ({ call, error }) => console.log(call, error.code) })
first.fault({ on: 'list', error: 'unavailable', times: 2 })
console.log((await patient.list()).length)

// The same for a call of your own, of which you know that it may be made twice.
console.log(await retry((attempt) => Promise.resolve(`attempt ${attempt}`)))

// Several providers as one; the type has what all of them can do.
await using provider = failover(patient, second, { clock })
first.fault({ on: 'create', error: 'unavailable' })
const sandbox = await provider.create({ lifetimeMs: 5 * 60_000 })
console.log(String(provider.explain(sandbox)))

// Alive for as long as this block runs, two hours at most; saved before it ends.
{
  await using heart = keepAlive(sandbox, {
    clock,
    leaseMs: 10 * 60_000,
    maxMs: 2 * 60 * 60_000,
    autoSnapshot: true,
    onError: (error, { retryInMs }) => console.log('a beat failed:', error, retryInMs),
    onSnapshot: (snapshotId) => console.log('saved:', snapshotId),
  })
  await clock.advance(60 * 60_000)
  console.log(await sandbox.status(), (await sandbox.info()).expiresAt?.toISOString())

  await clock.advance(70 * 60_000)
  console.log(await heart.ended, await sandbox.status())
}

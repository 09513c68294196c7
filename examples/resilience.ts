import { failover, keepAlive, retry, withRetry } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'

// Two providers with simulated failures and time; with real ones, omit `clock`.
const clock = new ManualClock(Date.parse('2026-01-01T12:00:00Z'))
const first = new MemoryProvider({ clock, seed: 'first' })
const second = new MemoryProvider({ clock, seed: 'second' })

// Repeats calls that are safe to repeat and failed with a retryable code. Never repeats commands.
const patient = withRetry(first, { baseMs: 1, onRetry: ({ call, error }) => console.log(call, error.code) })
first.fault({ on: 'list', error: 'unavailable', times: 2 })
console.log((await patient.list()).length)

// The same for your own call, if it is safe to repeat.
console.log(await retry((attempt) => Promise.resolve(`attempt ${attempt}`)))

// Several providers as one; the type has their common abilities.
await using provider = failover(patient, second, { clock })
first.fault({ on: 'create', error: 'unavailable' })
const sandbox = await provider.create({ lifetimeMs: 5 * 60_000 })
console.log(String(provider.explain(sandbox)))

// Keeps the sandbox alive while this block runs, for two hours at most, and saves it before it ends.
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

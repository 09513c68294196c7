import { failover, withRetry } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'

const clock = new ManualClock(Date.parse('2026-01-01T12:00:00Z'))
const first = new MemoryProvider({ clock, seed: 'first' })
const second = new MemoryProvider({ clock, seed: 'second' })

// The group has the abilities that all of its providers have.
await using provider = failover(withRetry(first), second, { clock })
first.fault({ on: 'create', error: 'unavailable' })
const sandbox = await provider.create({ lifetimeMs: 5 * 60_000 })
console.log(String(provider.explain(sandbox)))

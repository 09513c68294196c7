import { retry, withRetry } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'

const memory = new MemoryProvider()
const provider = withRetry(memory, {
  baseMs: 1,
  onRetry: ({ call, error }) => console.log(call, error.code),
})

// `list` is safe to repeat, so two failures are retried. Commands are never repeated.
memory.fault({ on: 'list', error: 'unavailable', times: 2 })
console.log((await provider.list()).length)

// The same policy for a call of your own that is safe to repeat.
console.log(await retry((attempt) => Promise.resolve(`attempt ${attempt}`)))

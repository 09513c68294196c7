import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { KeptEvents } from './kept-events.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function arrayBufferBytes(): number {
  collectGarbage()
  // Buffers are freed in the background; the second collection waits for that.
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

it('keeps the newest events and frees the memory of dropped ones', () => {
  const kept = new KeptEvents()
  const before = arrayBufferBytes()
  for (let seq = 1; seq <= 900; seq += 1) kept.push({ seq, type: 'stdout', data: new Uint8Array(65_536) })
  expect(arrayBufferBytes() - before).toBeLessThan(4_000_000)
  expect(kept.toJSON().map(({ seq }) => seq)).toEqual(Array.from({ length: 15 }, (_, at) => 886 + at))
})

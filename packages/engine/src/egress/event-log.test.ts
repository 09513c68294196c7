import { expect, it } from 'vitest'
import { EventLog } from './event-log.ts'
import type { EgressEvent } from './wire.ts'

const event = (seq: number, sandbox = 'a', path: string | null = null): EgressEvent => ({
  seq,
  sandbox,
  at: seq,
  kind: 'tls',
  host: null,
  address: null,
  port: null,
  verdict: 'allowed',
  rule: null,
  reason: null,
  bytesIn: 0,
  bytesOut: 0,
  durationMs: 0,
  method: null,
  path,
  status: null,
})
const seqs = (events: readonly EgressEvent[]) => events.map(({ seq }) => seq)

it('adds what the gateway has lost, in order and once', () => {
  const log = new EventLog()
  expect(seqs(log.merged('a', 0, [event(1), event(2)]))).toEqual([1, 2])
  log.add(event(1, 'b'))
  log.add(event(5))
  // A gateway that was restarted, and a reader that was away meanwhile.
  expect(seqs(log.merged('a', 1, [event(4), event(5), event(6)]))).toEqual([2, 4, 5, 6])
  expect(seqs(log.merged('b', 0, []))).toEqual([1])
  log.forget('a')
  expect(log.merged('a', 0, [])).toEqual([])
})

it('keeps the newest of each sandbox', () => {
  const log = new EventLog()
  for (let seq = 1; seq <= 1_100; seq += 1) log.add(event(seq))
  const kept = seqs(log.merged('a', 0, []))
  expect([kept.length, kept[0], kept.at(-1)]).toEqual([1_000, 101, 1_100])
})

it('takes the room from the sandbox that uses most', () => {
  const log = new EventLog({ maxBytes: 100_000 })
  for (let seq = 1; seq <= 10; seq += 1) log.add(event(seq, 'quiet'))
  for (let seq = 1; seq <= 200; seq += 1) log.add(event(seq, 'loud', 'x'.repeat(4_000)))
  expect(log.merged('quiet', 0, [])).toHaveLength(10)
  const loud = seqs(log.merged('loud', 0, []))
  expect(loud.length).toBeLessThan(15)
  expect(loud.at(-1)).toBe(200)
})

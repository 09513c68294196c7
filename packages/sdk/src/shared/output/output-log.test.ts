import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { ProcessEvent } from '../../spec/index.ts'
import { OutputLog } from './output-log.ts'

const exit = { exitCode: 0, timedOut: false, durationMs: 1 }
const bytes = (size: number) => new Uint8Array(size)

async function readAll(events: AsyncIterable<ProcessEvent>): Promise<number[]> {
  const seen: number[] = []
  for await (const { seq } of events) seen.push(seq)
  return seen
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function arrayBufferBytes(): number {
  collectGarbage()
  // Buffers are freed in the background; the second collection waits for that.
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

describe('OutputLog', () => {
  it('numbers from 1 without gaps, and ends with the exit', async () => {
    const log = new OutputLog({ capacityBytes: 1000 })
    log.push('stdout', bytes(1))
    log.push('stderr', bytes(0))
    log.push('stderr', bytes(1))
    log.end(exit)
    log.push('stdout', bytes(1))
    expect(await readAll(log.read())).toEqual([1, 2, 3])
    expect(await readAll(log.read(2))).toEqual([3])
    expect(await readAll(log.read(3))).toEqual([])
  })

  it('drops the oldest events while there is no reader, and reports that to a later reader', async () => {
    const log = new OutputLog({ capacityBytes: 1000 })
    for (let i = 0; i < 20; i += 1) log.push('stdout', bytes(61))
    log.end(exit)
    await expect(readAll(log.read())).rejects.toMatchObject({
      code: 'gone',
      details: { after: 0, oldest: 13 },
    })
    expect(await readAll(log.read(12))).toEqual([13, 14, 15, 16, 17, 18, 19, 20, 21])
  })

  it('drops nothing before its expected reader comes', async () => {
    const pressure: boolean[] = []
    const log = new OutputLog({ capacityBytes: 1000, onPressure: (wait) => pressure.push(wait) })
    const giveUp = log.expectReader()
    for (let i = 0; i < 20; i += 1) log.push('stdout', bytes(61))
    expect(pressure).toEqual([true])
    log.end(exit)
    expect(await readAll(log.read())).toHaveLength(21)
    expect(pressure).toEqual([true, false])
    giveUp()
    expect(log.kept().length).toBeLessThan(10)
  })

  it('drops the oldest events if its expected reader does not come', () => {
    const pressure: boolean[] = []
    const log = new OutputLog({ capacityBytes: 1000, onPressure: (wait) => pressure.push(wait) })
    const giveUp = log.expectReader()
    for (let i = 0; i < 20; i += 1) log.push('stdout', bytes(61))
    giveUp()
    expect(pressure).toEqual([true, false])
    expect(log.kept()[0]!.seq).toBeGreaterThan(10)
  })

  it('frees the memory of dropped events', () => {
    const log = new OutputLog({ capacityBytes: 1_000_000 })
    const before = arrayBufferBytes()
    for (let i = 0; i < 900; i += 1) log.push('stdout', bytes(65_536))
    expect(arrayBufferBytes() - before).toBeLessThan(4_000_000)
    log.end(exit)
  })

  it('keeps the newest output when the exit comes, also if one chunk is larger than the ring', async () => {
    const log = new OutputLog({ capacityBytes: 1000 })
    log.push('stdout', bytes(5000))
    log.end(exit)
    const kept = log.kept()
    expect(kept.at(-1)!.type).toBe('exit')
    expect(
      kept.reduce((sum, event) => sum + (event.type === 'exit' ? 0 : event.data.byteLength), 0),
    ).toBeGreaterThan(500)
  })

  it('bounds many tiny events as well as few large ones', () => {
    const log = new OutputLog({ capacityBytes: 64_000 })
    for (let i = 0; i < 100_000; i += 1) log.push('stdout', bytes(1))
    expect(log.kept().length).toBeLessThan(1000)
  })

  it('asks the writer to wait for a slow reader, and loses nothing', async () => {
    const pressure: boolean[] = []
    const log = new OutputLog({ capacityBytes: 1000, onPressure: (wait) => pressure.push(wait) })
    const reader = log.read()
    const first = reader.next()
    for (let i = 0; i < 20; i += 1) log.push('stdout', bytes(100))
    expect(pressure).toEqual([true])
    expect((await first).value).toMatchObject({ seq: 1 })
    const seen: number[] = []
    for (let i = 0; i < 19; i += 1) seen.push((await reader.next()).value!.seq)
    expect(seen).toEqual(Array.from({ length: 19 }, (_, i) => i + 2))
    await reader.return(undefined)
    expect(pressure).toEqual([true, false])
  })

  it('stops slowing the writer when the slow reader leaves', async () => {
    const pressure: boolean[] = []
    const log = new OutputLog({ capacityBytes: 1000, onPressure: (wait) => pressure.push(wait) })
    log.push('stdout', bytes(1))
    const reader = log.read()
    await reader.next()
    for (let i = 0; i < 20; i += 1) log.push('stdout', bytes(100))
    await reader.return(undefined)
    expect(pressure).toEqual([true, false])
  })

  it('does not slow the writer for a reader that waits for later events', () => {
    const pressure: boolean[] = []
    const log = new OutputLog({ capacityBytes: 1000, onPressure: (wait) => pressure.push(wait) })
    void log.read(1e9).next()
    for (let i = 0; i < 50; i += 1) log.push('stdout', bytes(100))
    expect(pressure).toEqual([])
  })

  it('ends a wait when its signal fires', async () => {
    const log = new OutputLog({ capacityBytes: 1000 })
    const controller = new AbortController()
    const reading = readAll(log.read(0, controller.signal))
    controller.abort(new Error('enough'))
    await expect(reading).rejects.toMatchObject({ code: 'aborted' })
  })
})

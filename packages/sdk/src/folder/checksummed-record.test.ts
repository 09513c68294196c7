import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { checksummed, readChecksummed, writeChecksummed } from './checksummed-record.ts'
import { newRecord, readRecord, writeRecord } from './record.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-halves-'))
const file = path.join(folder, 'text')
afterAll(() => rmSync(folder, { recursive: true }))

describe('a checksummed record', () => {
  beforeEach(() => writeFileSync(file, checksummed('{"a":0}')!))

  it('changes in place and reads the last text', () => {
    const { ino } = statSync(file)
    for (let count = 1; count <= 9; count += 1) {
      expect(writeChecksummed(file, `{"ä":${count}}`)).toBe(true)
      expect(readChecksummed(file)).toBe(`{"ä":${count}}`)
    }
    expect(statSync(file)).toMatchObject({ ino, size: 8192 })
  })

  it.each([0, 1, 2, 3])('keeps the previous text after an interrupted write, after %i others', (writes) => {
    for (let count = 1; count <= writes; count += 1) writeChecksummed(file, `{"a":${count}}`)
    const before = readFileSync(file)
    writeChecksummed(file, '{"a":"new, and longer than the one before"}')
    const after = readFileSync(file)
    const changed = after.findIndex((byte, at) => byte !== before[at])
    for (const cut of [changed + 1, changed + 5, changed + 12, changed + 40]) {
      writeFileSync(file, Buffer.concat([after.subarray(0, cut), before.subarray(cut)]))
      expect(readChecksummed(file)).toBe(`{"a":${writes}}`)
      expect(writeChecksummed(file, '{"a":"again"}')).toBe(true)
      expect(readChecksummed(file)).toBe('{"a":"again"}')
    }
  })

  it('reads a truncated or foreign file unchanged, and does not write to it', () => {
    truncateSync(file, 5)
    for (const text of [readFileSync(file, 'utf8'), '', '{"a":1}', `${'0'.repeat(8)} 1 {"a":1}`]) {
      writeFileSync(file, text)
      expect(readChecksummed(file)).toBe(text)
      expect(writeChecksummed(file, '{}')).toBe(false)
      expect(readFileSync(file, 'utf8')).toBe(text)
    }
  })

  it('does not write a text that is too long for a slot', () => {
    const longest = `"${'x'.repeat(4096 - 10 - 2 - 2)}"`
    expect(writeChecksummed(file, `${longest.slice(0, -1)}x"`)).toBe(false)
    expect(readChecksummed(file)).toBe('{"a":0}')
    expect(writeChecksummed(file, longest)).toBe(true)
    expect(readChecksummed(file)).toBe(longest)
  })

  it('shows complete texts to a concurrent reader, never an older one after a newer one', async () => {
    const script = `
      const { parentPort, workerData } = require('node:worker_threads')
      import(workerData.halves).then(({ writeChecksummed }) => {
        for (let count = 1; count <= 3000; count += 1)
          writeChecksummed(workerData.file, JSON.stringify({ count, fill: String(count).repeat(300) }))
        parentPort.postMessage('done')
      })`
    const halves = new URL('./checksummed-record.ts', import.meta.url).href
    const worker = new Worker(script, { eval: true, workerData: { halves, file } })
    let done = false
    const ended = new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve()).once('error', reject)
    }).finally(() => {
      done = true
    })
    let last = 0
    while (!done) {
      const { count = 0, fill = '' } = JSON.parse(readChecksummed(file))
      expect(fill).toBe(count === 0 ? '' : String(count).repeat(300))
      expect(count).toBeGreaterThanOrEqual(last)
      last = count
      await new Promise(setImmediate)
    }
    await ended
    expect(JSON.parse(readChecksummed(file)).count).toBe(3000)
  })
})

describe('a sandbox record', () => {
  it('is read back in every length and format', async () => {
    const record = await newRecord('a'.repeat(16), { labels: {}, envVars: {}, deferReady: false }, undefined)
    const long = { ...record, envVars: { LONG: 'ö'.repeat(5000) } }
    await writeRecord(folder, record)
    for (const next of [{ ...record, label: 'short' }, long, { ...long, label: 'long' }, record]) {
      await writeRecord(folder, next)
      expect(await readRecord(folder)).toEqual(next)
    }
    writeFileSync(path.join(folder, 'sandbox.json'), JSON.stringify(long))
    expect(await readRecord(folder)).toEqual(long)
  })
})

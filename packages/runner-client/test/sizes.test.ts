/** Tests every number and length of a request at and beyond its limits: each gets an answer, without crash or growth. */
import type { Socket } from 'node:net'
import type { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CborMap, encodeCbor } from '../src/cbor.ts'
import { encodeFrame, encodeHello, FrameParser, FrameType } from '../src/frame.ts'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient
let witness: number
beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
  witness = (await client.startDetached({ id: 'witness', argv: ['sleep', '100000'] })).pid
})
afterAll(() => runner[Symbol.asyncDispose]())

async function unharmed(): Promise<void> {
  expect((await client.run({ id: fresh(), argv: ['echo', 'fine'] })).stdout.toString()).toBe('fine\n')
  expect(await alive(witness)).toBe(true)
  expect(runner.stderr()).toBe('')
  expect(await runner.rssKb()).toBeLessThan(16 * 1024)
}

/** Sends frames. Resolves to the type of the frame that ends the last stream, to GOODBYE, or to the connection's end. */
async function answerTo(
  frames: Buffer[],
  stream = 1,
): Promise<'done' | 'error' | 'goodbye' | 'closed' | 'open'> {
  const socket: Socket = await runner.raw()
  const parser = new FrameParser()
  try {
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no answer')), 30_000)
      const done = (how: 'done' | 'error' | 'goodbye' | 'closed' | 'open') => {
        clearTimeout(timer)
        resolve(how)
      }
      socket.on('data', (chunk: Buffer) => {
        for (const frame of parser.push(chunk)) {
          if (frame.type === FrameType.goodbye) done('goodbye')
          if (frame.stream !== stream) continue
          if (frame.type === FrameType.done) done('done')
          if (frame.type === FrameType.error) done('error')
          // A watch or a connection does not end by itself.
          if (frame.type === FrameType.open) setTimeout(() => done('open'), 300)
        }
      })
      socket.on('close', () => done('closed'))
      socket.write(Buffer.concat([encodeHello(), ...frames]))
    })
  } finally {
    socket.destroy()
  }
}

const request = (body: CborMap, stream = 1) => encodeFrame(FrameType.request, stream, encodeCbor(body))

const numbers = [
  0,
  1,
  2,
  65_535,
  65_536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  -1,
  -(2 ** 53 - 1),
]

const program = { argv: [Buffer.from('true')] }
const fields: Array<[name: string, body: (value: number) => CborMap]> = [
  ['start timeoutMs', (timeoutMs) => ({ op: 'start', id: fresh(), ...program, timeoutMs })],
  ['start graceMs', (graceMs) => ({ op: 'start', id: fresh(), ...program, timeoutMs: 1000, graceMs })],
  ['start ringBytes', (ringBytes) => ({ op: 'start', id: fresh(), ...program, ringBytes })],
  ['start after', (after) => ({ op: 'start', id: fresh(), ...program, after })],
  ['start cols', (cols) => ({ op: 'start', id: fresh(), ...program, tty: true, cols, rows: 24 })],
  ['start rows', (rows) => ({ op: 'start', id: fresh(), ...program, tty: true, cols: 80, rows })],
  ...['cpuSeconds', 'addressBytes', 'dataBytes', 'stackBytes', 'fileBytes', 'coreBytes', 'openFiles'].map(
    (limit): [string, (value: number) => CborMap] => [
      `start limits.${limit}`,
      (value) => ({ op: 'start', id: fresh(), ...program, limits: { [limit]: value } }),
    ],
  ),
  ['attach after', (after) => ({ op: 'attach', id: 'witness', after, until: 'end', lossy: true })],
  ['resize cols', (cols) => ({ op: 'resize', id: 'witness', cols, rows: 1 })],
  ['signal', (signal) => ({ op: 'signal', id: 'nobody', signal })],
  ['dial port', (port) => ({ op: 'dial', port })],
  ['fs.read offset', (offset) => ({ op: 'fs.read', path: Buffer.from('/etc/hostname'), offset })],
  ['fs.read length', (length) => ({ op: 'fs.read', path: Buffer.from('/etc/hostname'), length })],
  ['fs.list depth', (depth) => ({ op: 'fs.list', path: Buffer.from('/proc/self/fdinfo'), depth })],
  ['fs.mkdir mode', (mode) => ({ op: 'fs.mkdir', path: Buffer.from(`${runner.folder}/${fresh()}`), mode })],
  ['fs.chmod mode', (mode) => ({ op: 'fs.chmod', path: Buffer.from(`${runner.folder}/none`), mode })],
  ['shell.open cols', (cols) => ({ op: 'shell.open', id: fresh(), cols, rows: 24 })],
]

describe('numbers in a request', () => {
  it.each(fields)('%s', { timeout: 120_000 }, async (_, body) => {
    for (const value of numbers) {
      const answer = await answerTo([request(body(value))])
      expect(['done', 'error', 'open'], `${value}`).toContain(answer)
    }
    await unharmed()
  })
})

describe('lengths in a request', () => {
  const limit = 1024 * 1024
  it.each([0, 1, 127, 128, 129, 65_536, limit - 200, limit - 60])(
    'an id, a path and an argument of %i bytes',
    async (size) => {
      const text = 'a'.repeat(size)
      const bodies: CborMap[] = [
        { op: 'start', id: text, ...program },
        { op: 'start', id: fresh(), argv: [Buffer.from('true'), Buffer.from(text)] },
        { op: 'start', id: fresh(), ...program, cwd: Buffer.from(text) },
        { op: 'start', id: fresh(), ...program, user: text },
        { op: 'fs.stat', path: Buffer.from(text) },
        { op: 'fs.write', path: Buffer.from(text) },
      ]
      for (const body of bodies) {
        const answer = await answerTo([
          request(body),
          ...(body.op === 'fs.write' ? [encodeFrame(FrameType.cancel, 1)] : []),
        ])
        expect(['done', 'error', 'open']).toContain(answer)
      }
      await unharmed()
    },
  )

  it.each([0, 1, 1000, 4095, 4096, 4097, 60_000])('%i arguments and variables', async (count) => {
    const argv = [Buffer.from('true'), ...Array.from({ length: count }, () => Buffer.from('a'))]
    expect(['done', 'error', 'goodbye']).toContain(
      await answerTo([request({ op: 'start', id: fresh(), argv })]),
    )
    const env = Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']))
    expect(['done', 'error', 'goodbye']).toContain(
      await answerTo([request({ op: 'start', id: fresh(), ...program, env })]),
    )
    await unharmed()
  })

  it.each([1, 15, 16, 17, 1000, 100_000])('a body with %i levels of nesting', async (depth) => {
    const arrays = Buffer.concat([Buffer.alloc(depth, 0x81), Buffer.from([0x00])])
    const body = Buffer.concat([
      Buffer.from([0xa2, 0x62]),
      Buffer.from('op'),
      Buffer.from([0x64]),
      Buffer.from('list'),
      Buffer.from([0x61]),
      Buffer.from('x'),
      arrays,
    ])
    expect(await answerTo([encodeFrame(FrameType.request, 1, body)])).toBe(depth < 16 ? 'done' : 'goodbye')
    await unharmed()
  })
})

describe('lengths that a frame claims', () => {
  const header = (length: number, type: number, stream = 1) => {
    const bytes = Buffer.alloc(9)
    bytes.writeUInt32BE(length)
    bytes.writeUInt8(type, 4)
    bytes.writeUInt32BE(stream, 5)
    return bytes
  }
  const limits: Array<[string, number, number]> = [
    ['REQUEST', FrameType.request, 1024 * 1024],
    ['DATA', FrameType.data, 64 * 1024],
    ['WINDOW', FrameType.window, 4],
    ['END', FrameType.end, 0],
    ['PING', FrameType.ping, 8],
    ['GOODBYE', FrameType.goodbye, 1024 * 1024],
  ]
  it.each(limits)('%s', async (_, type, limit) => {
    for (const length of [limit + 1, 2 ** 31, 2 ** 32 - 1])
      expect(
        await answerTo([header(length, type, type === FrameType.ping || type === FrameType.goodbye ? 0 : 1)]),
      ).toBe('goodbye')
    await unharmed()
  })
  it('stream numbers', async () => {
    for (const stream of [1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1])
      expect(await answerTo([request({ op: 'list' }, stream)], stream)).toBe('done')
    expect(await answerTo([request({ op: 'list' }, 0)], 0)).toBe('goodbye')
  })
})

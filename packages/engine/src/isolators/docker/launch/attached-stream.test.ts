import { Duplex, PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { ExecStream } from './attached-stream.ts'

function frame(channel: number, text: string): Buffer {
  const header = Buffer.from([channel, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([header, Buffer.from(text)])
}

/** A pair of connected sockets. */
function pair(): { raw: Duplex; toUs: PassThrough; fromUs: PassThrough } {
  const [toUs, fromUs] = [new PassThrough({ highWaterMark: 1 << 20 }), new PassThrough()]
  return { raw: Duplex.from({ readable: toUs, writable: fromUs }), toUs, fromUs }
}

const whole = Buffer.concat([
  frame(1, 'one'),
  frame(2, 'oops'),
  frame(1, ''),
  frame(1, 'two'),
  frame(1, 'x'.repeat(70_000)),
])

it('extracts the output from its frames, wherever chunks are split', async () => {
  for (const size of [1, 3, 7, 8, 9, 1000, whole.length]) {
    const { raw, toUs } = pair()
    const stream = new ExecStream(raw)
    const read = buffer(stream)
    for (let at = 0; at < whole.length; at += size) toUs.write(whole.subarray(at, at + size))
    toUs.end()
    expect((await read).toString()).toBe(`onetwo${'x'.repeat(70_000)}`)
    expect(stream.errors).toBe('oops')
  }
}, 30_000)

it('passes writes and their end through unchanged', async () => {
  const { raw, fromUs } = pair()
  const stream = new ExecStream(raw)
  stream.write(Buffer.from([0, 1, 255]))
  stream.end('end')
  expect(await buffer(fromUs)).toEqual(Buffer.from([0, 1, 255, ...Buffer.from('end')]))
})

it('stops reading from the daemon if the consumer does not read', async () => {
  const piece = frame(1, 'y'.repeat(32 * 1024))
  let taken = 0
  const raw = new Duplex({
    highWaterMark: piece.length,
    read() {
      taken += 1
      this.push(taken <= 1000 ? piece : null)
    },
    write: (_chunk, _encoding, done) => done(),
  })
  const stream = new ExecStream(raw)
  for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate)
  expect(taken).toBeLessThan(10)
  expect((await buffer(stream)).length).toBe(1000 * 32 * 1024)
})

it.each([
  ['an unknown channel', Buffer.from([9, 0, 0, 0, 0, 0, 0, 1, 65])],
  ['a length above the maximum', Buffer.from([1, 0, 0, 0, 255, 255, 255, 255])],
  ['a truncated header', whole.subarray(0, 5)],
  ['a truncated frame', whole.subarray(0, 10)],
])('%s is an error, not output', async (_, bytes) => {
  const { raw, toUs } = pair()
  const stream = new ExecStream(raw)
  toUs.end(bytes)
  await expect(buffer(stream)).rejects.toThrow(/stream/)
})

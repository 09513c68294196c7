import { describe, expect, it } from 'vitest'
import { MarkedStream } from './marked-stream.ts'

const nonce = '0123456789abcdef'
const marker = (text: string) => `\x1e${nonce} ${text}\n`

/** Feeds the bytes in chunks. Returns the markers and the joined output between them. */
function read(bytes: Buffer, cuts: readonly number[]): Array<string | object> {
  const stream = new MarkedStream(nonce)
  const found: Array<string | object> = []
  let from = 0
  for (const cut of [...cuts, bytes.length]) {
    for (const piece of stream.push(bytes.subarray(from, cut))) {
      const last = found.at(-1)
      if (!Buffer.isBuffer(piece)) found.push(piece)
      else if (typeof last === 'string') found[found.length - 1] = last + piece.toString('latin1')
      else found.push(piece.toString('latin1'))
    }
    from = cut
  }
  const rest = stream.flush().toString('latin1')
  if (rest !== '') found.push(rest)
  return found
}

const text = `${marker('begin a 0')}no newline\x1e\x1e${nonce.slice(0, 5)}${marker('end a 3')}${marker('begin b 0')}\xff\x00\n${marker('end b 0')}`
const bytes = Buffer.from(text, 'latin1')
const wanted = [
  { kind: 'begin', execId: 'a', exitCode: 0 },
  `no newline\x1e\x1e${nonce.slice(0, 5)}`,
  { kind: 'end', execId: 'a', exitCode: 3 },
  { kind: 'begin', execId: 'b', exitCode: 0 },
  '\xff\x00\n',
  { kind: 'end', execId: 'b', exitCode: 0 },
]

describe('MarkedStream', () => {
  it('finds markers and passes all other bytes on, wherever chunks are split', () => {
    expect(read(bytes, [])).toEqual(wanted)
    for (let cut = 1; cut < bytes.length; cut += 1)
      expect(read(bytes, [cut]), `cut at ${cut}`).toEqual(wanted)
    const everywhere = Array.from({ length: bytes.length - 1 }, (_, index) => index + 1)
    expect(read(bytes, everywhere)).toEqual(wanted)
  })

  it('passes text on at once that cannot be a marker', () => {
    const stream = new MarkedStream(nonce)
    expect(String(Buffer.concat(stream.push(Buffer.from('prompt> ')) as Buffer[]))).toBe('prompt> ')
    expect(stream.holds).toBe(false)
    stream.push(Buffer.from(`\x1e${nonce.slice(0, 3)}`))
    expect(stream.holds).toBe(true)
    expect(String(stream.flush())).toBe(`\x1e${nonce.slice(0, 3)}`)
  })

  it('buffers at most the length of a marker', () => {
    const stream = new MarkedStream(nonce)
    const start = `\x1e${nonce} `
    const pieces = [start, ...Array.from({ length: 256 }, () => 'x'.repeat(4096)), `${start}end a 3\n`]
    const found = pieces.flatMap((piece) => stream.push(Buffer.from(piece)))
    const output = found.filter((piece) => Buffer.isBuffer(piece))
    expect(Buffer.concat(output)).toHaveLength(start.length + 1_048_576)
    expect(found.at(-1)).toEqual({ kind: 'end', execId: 'a', exitCode: 3 })
    // Output was passed on before the end of the line.
    expect(output.length).toBeGreaterThan(250)
  })

  it('accepts only exact markers', () => {
    const lies = ['end a', 'end a 1 2', 'end a -1', 'END a 0', 'end a 0x1', 'end ../a 0', 'end  0', '']
    for (const lie of lies) expect(read(Buffer.from(marker(lie)), [])).toEqual([marker(lie)])
    const after = read(Buffer.from(marker('end ') + marker('end a 7')), [])
    expect(after).toEqual([marker('end '), { kind: 'end', execId: 'a', exitCode: 7 }])
  })
})

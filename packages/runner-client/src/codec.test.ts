import { readdirSync, readFileSync } from 'node:fs'
import { HeadTail } from '@sandkasten/sdk/provider'
import { describe, expect, it } from 'vitest'
import { type CborValue, decodeCbor, decodeMap, encodeCbor } from './cbor.ts'
import { ProtocolError } from './errors.ts'
import {
  decodeOutput,
  encodeFrame,
  encodeHello,
  encodeWindow,
  FrameParser,
  FrameType,
  headerBytes,
} from './frame.ts'
import { Random } from './test-helper.ts'

const folder = new URL('../../../protocol/golden/', import.meta.url)
const names = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => name.slice(0, -5))

interface Golden {
  frame: string
  stream: number
  refused?: string
  body?: unknown
  bytes?: string
  major?: number
  minor?: number
  grant?: number
  channel?: number
  number?: number
}

function golden(name: string): { description: Golden; bytes: Buffer } {
  const description = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8')) as Golden
  const bytes = Buffer.from(readFileSync(new URL(`${name}.hex`, folder), 'utf8').replace(/\s/g, ''), 'hex')
  return { description, bytes }
}

/** Descriptions write bytes as `{ "$bytes": "<hex>" }`. */
function fromJson(value: unknown): CborValue {
  if (Array.isArray(value)) return value.map(fromJson)
  if (typeof value !== 'object' || value === null) return value as CborValue
  if ('$bytes' in value) return Uint8Array.from(Buffer.from(value.$bytes as string, 'hex'))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fromJson(item)]))
}

function build({ frame, stream, ...rest }: Golden): Buffer {
  const type = FrameType[frame.toLowerCase() as keyof typeof FrameType]
  if (frame === 'HELLO') return encodeHello({ major: rest.major as number, minor: rest.minor as number })
  if (frame === 'WINDOW') return encodeWindow(stream, rest.grant as number)
  if (rest.body !== undefined) return encodeFrame(type, stream, encodeCbor(fromJson(rest.body)))
  const content = Buffer.from(rest.bytes ?? '', 'hex')
  if (frame !== 'OUTPUT') return encodeFrame(type, stream, content)
  const prefix = Buffer.alloc(9)
  prefix.writeUInt8(rest.channel as number)
  prefix.writeBigUInt64BE(BigInt(rest.number as number), 1)
  return encodeFrame(type, stream, Buffer.concat([prefix, content]))
}

describe('golden frames', () => {
  it.each(names.filter((name) => !name.startsWith('refused-')))(
    '%s is encoded and decoded byte for byte',
    (name) => {
      const { description, bytes } = golden(name)
      expect(build(description).toString('hex')).toBe(bytes.toString('hex'))
      const [frame] = [...new FrameParser().push(bytes)]
      expect(frame?.stream).toBe(description.stream)
      expect(frame?.type).toBe(FrameType[description.frame.toLowerCase() as keyof typeof FrameType])
      if (description.body !== undefined) {
        expect(Buffer.from(encodeCbor(decodeCbor(frame?.payload as Buffer)))).toEqual(frame?.payload)
        expect({ ...decodeMap(frame?.payload as Buffer) }).toMatchObject(fromJson(description.body) as object)
      }
      if (description.frame === 'OUTPUT') {
        expect(decodeOutput(frame?.payload as Buffer)).toMatchObject({
          channel: 'stderr',
          number: description.number,
        })
      }
    },
  )

  it.each(names.filter((name) => name.startsWith('refused-')))('%s is refused', (name) => {
    const { description, bytes } = golden(name)
    expect(() => [...new FrameParser().push(bytes)]).toThrow(
      expect.objectContaining({ code: description.refused }),
    )
  })
})

describe('the frame parser', () => {
  const random = new Random()
  const whole = Buffer.concat(
    names.filter((name) => !name.startsWith('refused-')).map((name) => golden(name).bytes),
  )
  /** Joins adjacent content, because its split into frames has no meaning. */
  const shapes = (parser: FrameParser, chunks: Buffer[]): string[] => {
    const found: string[] = []
    let before = ''
    for (const { type, stream, payload } of chunks.flatMap((chunk) => [...parser.push(chunk)])) {
      const kind = `${type}/${stream}/`
      if (type === FrameType.data && kind === before) found.push(`${found.pop()}${payload.toString('hex')}`)
      else found.push(`${kind}${payload.toString('hex')}`)
      before = kind
    }
    return found
  }
  const expected = shapes(new FrameParser(), [whole])

  it('returns the same frames for all chunk sizes', () => {
    for (let round = 0; round < 200; round++) {
      const chunks: Buffer[] = []
      for (let at = 0; at < whole.length; ) {
        const size = 1 + random.below(round % 3 === 0 ? 2 : 200)
        chunks.push(whole.subarray(at, at + size))
        at += size
      }
      const parser = new FrameParser()
      expect(shapes(parser, chunks), `seed ${random.seed}`).toEqual(expected)
      expect(parser.torn).toBe(0)
    }
  })

  it('detects an incomplete DATA frame, and accepts no frame before its end', () => {
    const parser = new FrameParser()
    const frame = encodeFrame(FrameType.data, 3, Buffer.from('abcdef'))
    expect([...parser.push(frame.subarray(0, 11))].map(({ payload }) => payload.toString())).toEqual(['ab'])
    expect(parser.torn).toBe(4)
    const rest = Buffer.concat([frame.subarray(11), encodeFrame(FrameType.end, 3)])
    expect([...parser.push(rest)].map(({ type, payload }) => [type, payload.toString()])).toEqual([
      [FrameType.data, 'cdef'],
      [FrameType.end, ''],
    ])
    expect(parser.torn).toBe(0)
  })

  it('keeps the bytes of payloads that were handed out', () => {
    const parser = new FrameParser()
    const kept: Buffer[] = []
    const sent: string[] = []
    const frames = Array.from({ length: 50 }, () => {
      const content = random.bytes(1 + random.below(300))
      sent.push(content.toString('hex'))
      return encodeFrame(FrameType.event, 1, content)
    })
    const stream = Buffer.concat(frames)
    for (let at = 0; at < stream.length; at += 37) {
      for (const frame of parser.push(Buffer.from(stream.subarray(at, at + 37)))) kept.push(frame.payload)
    }
    expect(
      kept.map((payload) => payload.toString('hex')),
      `seed ${random.seed}`,
    ).toEqual(sent)
  })

  it('copies a megabyte that arrives byte by byte only a few times', () => {
    const parser = new FrameParser()
    const frame = encodeFrame(FrameType.request, 1, Buffer.alloc(1024 * 1024, 1))
    let frames = 0
    for (let at = 0; at < frame.length; at++)
      for (const _ of parser.push(frame.subarray(at, at + 1))) frames += 1
    expect(frames).toBe(1)
  })

  it('answers random bytes with a ProtocolError or by waiting', () => {
    for (let round = 0; round < 5000; round++) {
      const parser = new FrameParser()
      try {
        for (let part = 0; part < 4; part++)
          for (const frame of parser.push(random.bytes(random.below(40)))) expect(frame).toBeDefined()
      } catch (error) {
        expect(error, `seed ${random.seed}`).toBeInstanceOf(ProtocolError)
      }
    }
  })
})

describe('the body codec', () => {
  const random = new Random()

  function anything(depth: number): CborValue {
    const choices: (() => CborValue)[] = [
      () => null,
      () => random.below(2) === 1,
      () => random.below(1000) - 500,
      () => random.next() * 1_000_000,
      () => `text ${random.below(100)} ä`,
      () => Uint8Array.from(random.bytes(random.below(300))),
    ]
    if (depth < 5) {
      choices.push(() => Array.from({ length: random.below(5) }, () => anything(depth + 1)))
      choices.push(() =>
        Object.fromEntries(Array.from({ length: random.below(5) }, (_, i) => [`k${i}`, anything(depth + 1)])),
      )
    }
    return random.pick(choices)()
  }

  it('decodes to the encoded value', () => {
    for (let round = 0; round < 2000; round++) {
      const value = anything(0)
      const bytes = encodeCbor(value)
      expect(Buffer.from(encodeCbor(decodeCbor(bytes))).equals(bytes), `seed ${random.seed}`).toBe(true)
    }
  })

  it('decodes a changed byte to another value or a ProtocolError', () => {
    for (let round = 0; round < 5000; round++) {
      const bytes = Buffer.from(encodeCbor(anything(0)))
      bytes[random.below(bytes.length)] = random.below(256)
      let value: CborValue
      try {
        value = decodeCbor(bytes)
      } catch (error) {
        expect(error, `seed ${random.seed}`).toBeInstanceOf(ProtocolError)
        continue
      }
      expect(decodeCbor(encodeCbor(value)), `seed ${random.seed}`).toEqual(value)
    }
  })

  it.each([
    ['a length beyond the body', '9bffffffffffffffff'],
    ['deep nesting', '81'.repeat(100)],
    ['too many values', `9a00020000${'00'.repeat(0x20000)}`],
    ['a float', 'fb0000000000000000'],
    ['a tag', 'c000'],
    ['an indefinite length', '5f'],
    ['a number in a long form', '1817'],
    ['a key twice', 'a2616100616101'],
    ['text that is not UTF-8', '61ff'],
    ['2^53', '1b0020000000000000'],
    ['nothing', ''],
    ['two values', '0000'],
  ])('refuses %s', (_, hex) => {
    expect(() => decodeCbor(Buffer.from(hex, 'hex'))).toThrow(ProtocolError)
  })

  it('lets no key reach a prototype', () => {
    const map = decodeMap(
      Buffer.from(
        encodeCbor(
          Object.fromEntries([
            ['__proto__', 'x'],
            ['toString', 1],
          ]),
        ),
      ),
    )
    expect(Object.getPrototypeOf(map)).toBe(null)
    expect(Object.keys(map)).toEqual(['__proto__', 'toString'])
  })

  it('refuses a request larger than a frame before it is sent', () => {
    expect(() => encodeFrame(FrameType.request, 1, Buffer.alloc(1024 * 1024 + 1))).toThrow(RangeError)
    expect(headerBytes).toBe(9)
  })
})

describe('kept output (pitfall 120)', () => {
  it('keeps the head and the tail, and reports the number of missing bytes', () => {
    const random = new Random()
    for (let round = 0; round < 200; round++) {
      const limit = 1 + random.below(200)
      const kept = new HeadTail(limit)
      const all = random.bytes(random.below(1000))
      for (let at = 0; at < all.length; ) {
        const size = 1 + random.below(100)
        kept.push(all.subarray(at, at + size))
        at += size
      }
      const { bytes, omitted } = kept.result()
      const head = Math.min(Math.ceil(limit / 2), all.length)
      const tail = Math.min(Math.floor(limit / 2), all.length - head)
      expect(Buffer.from(bytes), `seed ${random.seed}`).toEqual(
        Buffer.concat([all.subarray(0, head), all.subarray(all.length - tail)]),
      )
      expect(omitted).toBe(all.length - head - tail)
    }
  })
})

import { describe, expect, it } from 'vitest'
import { Random } from '../runner/test-helper.ts'
import { type Answer, AnswerReader } from './answer-reader.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** What is read when the bytes come in these pieces. */
function read(pieces: readonly Uint8Array[]): Answer[] {
  const reader = new AnswerReader()
  return pieces.map((piece) => reader.push(piece)).filter((answer) => answer !== undefined)
}

const plain =
  'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 15\r\nkeep-alive: timeout=72\r\n\r\n{"a":"größe"}'
const pieces =
  'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"a":"\r\nA;x=y\r\n0123456789\r\n2\r\n"}\r\n0\r\nx-sum: 7\r\n\r\n'
const answers: ReadonlyArray<[string, string, Partial<Answer>]> = [
  ['a length', plain, { status: 200, text: '{"a":"größe"}', keepMs: 72_000 }],
  ['pieces', pieces, { status: 201, text: '{"a":"0123456789"}', keepMs: 5000 }],
  ['no content', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, text: '' }],
  ['a length of nothing', 'HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n', { status: 200, text: '' }],
  ['a word in between', `HTTP/1.1 100 Continue\r\n\r\n${plain}`, { status: 200, text: '{"a":"größe"}' }],
  [
    'the last one',
    'HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\nok',
    { keepMs: 0, text: 'ok' },
  ],
  ['an old one', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok', { keepMs: 0, text: 'ok' }],
]

describe('an answer', () => {
  it.each(answers)('with %s is read, however it is cut', (_, text, expected) => {
    const whole = bytes(text)
    expect(read([whole])).toEqual([expect.objectContaining(expected)])
    expect(read(Array.from(whole, (byte) => Uint8Array.of(byte)))).toEqual([
      expect.objectContaining(expected),
    ])
    const random = new Random(5)
    for (let round = 0; round < 200; round += 1) {
      const cuts = [0, random.below(whole.length), random.below(whole.length), whole.length].sort(
        (a, b) => a - b,
      )
      const parts = cuts.slice(1).map((end, at) => whole.slice(cuts[at], end))
      expect(read(parts)).toEqual([expect.objectContaining(expected)])
    }
  })

  it('follows another one on the same connection', () => {
    const reader = new AnswerReader()
    for (const [, text, expected] of [...answers, ...answers])
      expect(reader.push(bytes(text))).toMatchObject(expected)
  })

  it('without a length ends with the connection, and only then', () => {
    const reader = new AnswerReader()
    expect(reader.push(bytes('HTTP/1.1 200 OK\r\n\r\nall of'))).toBeUndefined()
    expect(reader.push(bytes(' it'))).toBeUndefined()
    expect(reader.end()).toMatchObject({ status: 200, text: 'all of it', keepMs: 0 })
  })

  it.each([
    ['nothing', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\ncontent-le'],
    ['half a body', plain.slice(0, -3)],
    ['half a piece', pieces.slice(0, -30)],
    ['no last piece', pieces.slice(0, -16)],
  ])('that is cut off after %s is none', (_, text) => {
    const reader = new AnswerReader()
    expect(reader.push(bytes(text))).toBeUndefined()
    expect(reader.end()).toBeUndefined()
  })

  it.each([
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n', /no answer/],
    ['a status of three other characters', 'HTTP/1.1 2x0 OK\r\n\r\n', /no answer/],
    ['a header without a name', 'HTTP/1.1 200 OK\r\n: x\r\n\r\n', /header/],
    ['a header with a space in its name', 'HTTP/1.1 200 OK\r\ncontent length: 3\r\n\r\n', /header/],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n', /length/],
    ['a negative length', 'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n', /length/],
    [
      'a length and pieces',
      'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n',
      /understood/,
    ],
    ['compressed pieces', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n', /understood/],
    ['a piece of no length', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n', /piece/],
    [
      'a piece that is too long',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n',
      /piece|carriage/,
    ],
    [
      'a line without a carriage return',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nab\r\n',
      /carriage/,
    ],
    ['more than was asked for', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n', /more/],
    ['a head without an end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}`, /too long/],
    [
      'a line without an end',
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'0'.repeat(5000)}`,
      /too long/,
    ],
  ])('that is %s is refused', (_, text, message) => {
    expect(() => read([bytes(text)])).toThrow(message)
  })

  it('of many megabytes costs no more than they are', () => {
    const reader = new AnswerReader()
    const size = 32 * 1024 * 1024
    reader.push(bytes(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`))
    let answer: Answer | undefined
    for (let sent = 0; sent < size; sent += 65_536) answer = reader.push(new Uint8Array(65_536).fill(97))
    expect(answer?.text.length).toBe(size)
  })
})

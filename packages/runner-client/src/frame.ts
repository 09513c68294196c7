/**
 * Frames: `length u32 | type u8 | stream u32`, big endian, then the payload. See protocol/runner.md.
 *
 * The parser is pure and incremental. It checks a header against the limit of its type before it waits for the payload, so
 * a hostile peer can make us hold at most one frame. DATA payloads are handed on as they arrive, without copying.
 */
import { ProtocolError } from './errors.ts'

export const headerBytes = 9
export const maxData = 64 * 1024
export const maxBody = 1024 * 1024
export const outputPrefix = 9
export const initialWindow = 256 * 1024
export const maxWindow = 64 * 1024 * 1024
export const magic = 'SKRUNNER'
export const major = 1
export const minor = 2

export const FrameType = {
  hello: 0x01,
  welcome: 0x02,
  goodbye: 0x03,
  ping: 0x04,
  pong: 0x05,
  request: 0x10,
  open: 0x11,
  event: 0x12,
  done: 0x13,
  error: 0x14,
  cancel: 0x15,
  data: 0x20,
  output: 0x21,
  end: 0x22,
  window: 0x23,
} as const
export type FrameType = (typeof FrameType)[keyof typeof FrameType]

export interface Frame {
  type: FrameType
  stream: number
  /** A view of the received bytes. It stays valid while it is held. */
  payload: Buffer
}

const names = new Map<number, string>(
  Object.entries(FrameType).map(([name, type]) => [type, name.toUpperCase()]),
)

const bounds: Readonly<Record<FrameType, readonly [number, number]>> = {
  [FrameType.hello]: [12, 12],
  [FrameType.welcome]: [1, maxBody],
  [FrameType.goodbye]: [1, maxBody],
  [FrameType.ping]: [8, 8],
  [FrameType.pong]: [8, 8],
  [FrameType.request]: [1, maxBody],
  [FrameType.open]: [1, maxBody],
  [FrameType.event]: [1, maxBody],
  [FrameType.done]: [1, maxBody],
  [FrameType.error]: [1, maxBody],
  [FrameType.cancel]: [0, 0],
  [FrameType.data]: [1, maxData],
  [FrameType.output]: [outputPrefix + 1, outputPrefix + maxData],
  [FrameType.end]: [0, 0],
  [FrameType.window]: [4, 4],
}

export function encodeFrame(type: FrameType, stream: number, payload: Uint8Array = empty): Buffer {
  const [least, most] = bounds[type]
  if (payload.length < least || payload.length > most) {
    throw new RangeError(`a ${names.get(type)} frame of ${payload.length} bytes, from ${least} to ${most}`)
  }
  const frame = Buffer.allocUnsafe(headerBytes + payload.length)
  frame.writeUInt32BE(payload.length, 0)
  frame.writeUInt8(type, 4)
  frame.writeUInt32BE(stream, 5)
  frame.set(payload, headerBytes)
  return frame
}

export function encodeHello(version: { major: number; minor: number } = { major, minor }): Buffer {
  const payload = Buffer.alloc(12)
  payload.write(magic, 'latin1')
  payload.writeUInt16BE(version.major, 8)
  payload.writeUInt16BE(version.minor, 10)
  return encodeFrame(FrameType.hello, 0, payload)
}

export function encodeWindow(stream: number, bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(bytes)
  return encodeFrame(FrameType.window, stream, payload)
}

export interface OutputChunk {
  channel: 'stdout' | 'stderr'
  /** The number of the event, from 1 without gaps. */
  number: number
  data: Buffer
}

export function decodeOutput(payload: Buffer): OutputChunk {
  const channel = payload[0] === 1 ? 'stdout' : payload[0] === 2 ? 'stderr' : undefined
  const number = Number(payload.readBigUInt64BE(1))
  if (channel === undefined || !Number.isSafeInteger(number) || number < 1) {
    throw new ProtocolError('malformed', 'an OUTPUT frame with an unknown channel or an impossible number')
  }
  return { channel, number, data: payload.subarray(outputPrefix) }
}

export class FrameParser {
  /** The beginning of an incomplete frame, with room to grow. */
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0
  /** The remaining bytes of the current DATA frame. */
  #left = 0
  #stream = 0

  /** The received bytes of an incomplete frame, or its missing bytes. */
  get torn(): number {
    return this.#length + this.#left
  }

  /**
   * Yields every frame that `chunk` completes, and parts of DATA frames as they arrive. Throws `ProtocolError` on the first
   * invalid frame; the parser cannot be used afterwards.
   */
  *push(chunk: Buffer): Generator<Frame, void, void> {
    // The usual case, complete frames in one chunk, is parsed in place.
    const bytes = this.#length === 0 ? chunk : this.#append(chunk)
    let at = 0
    for (;;) {
      if (this.#left > 0) {
        const end = Math.min(bytes.length, at + this.#left)
        if (end === at) break
        this.#left -= end - at
        yield { type: FrameType.data, stream: this.#stream, payload: bytes.subarray(at, end) }
        at = end
        continue
      }
      if (bytes.length - at < headerBytes) break
      const length = bytes.readUInt32BE(at)
      const type = bytes[at + 4] as number
      const stream = bytes.readUInt32BE(at + 5)
      check(length, type, stream)
      if (type === FrameType.data) {
        this.#left = length
        this.#stream = stream
        at += headerBytes
        continue
      }
      const end = at + headerBytes + length
      if (bytes.length < end) break
      yield { type: type as FrameType, stream, payload: bytes.subarray(at + headerBytes, end) }
      at = end
    }
    if (this.#length > 0 && at === 0) return
    // Payloads that were handed out keep their memory, so the rest is copied.
    this.#length = 0
    if (at < bytes.length) {
      this.#buffer = Buffer.alloc(0)
      this.#append(bytes.subarray(at))
    }
  }

  /** Grows by doubling, so a frame that arrives byte by byte is copied only a few times. */
  #append(chunk: Buffer): Buffer {
    const length = this.#length + chunk.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, this.#buffer.length * 2))
      this.#buffer.copy(larger, 0, 0, this.#length)
      this.#buffer = larger
    }
    chunk.copy(this.#buffer, this.#length)
    this.#length = length
    return this.#buffer.subarray(0, length)
  }
}

function check(length: number, type: number, stream: number): void {
  const known = bounds[type as FrameType] as readonly [number, number] | undefined
  if (known === undefined) {
    throw new ProtocolError('unknown_frame', `frame type 0x${type.toString(16).padStart(2, '0')} is unknown`)
  }
  if (length > known[1])
    throw new ProtocolError('too_long', `a ${names.get(type)} frame of ${length} bytes, at most ${known[1]}`)
  if (length < known[0])
    throw new ProtocolError(
      'malformed',
      `a ${names.get(type)} frame of ${length} bytes, at least ${known[0]}`,
    )
  if (type < 0x10 !== (stream === 0)) {
    throw new ProtocolError('malformed', `a ${names.get(type)} frame on stream ${stream}`)
  }
}

const empty = new Uint8Array(0)

import type { ProcessEvent } from '../../../spec/index.ts'

/**
 * Frames between a supervisor and its clients, and of stored output: a JSON header and raw bytes.
 *
 *     u32 header length │ u32 body length │ header │ body
 */
export interface Frame {
  readonly header: Record<string, unknown>
  readonly body: Uint8Array
}

export function encodeFrame(header: object, body: Uint8Array = new Uint8Array()): Buffer {
  const head = Buffer.from(JSON.stringify(header))
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(head.byteLength, 0)
  lengths.writeUInt32BE(body.byteLength, 4)
  return Buffer.concat([lengths, head, body])
}

export function encodeEvent(event: ProcessEvent): Buffer {
  if (event.type === 'exit') return encodeFrame({ event })
  return encodeFrame({ event: { seq: event.seq, type: event.type } }, event.data)
}

export function decodeEvent(frame: Frame): ProcessEvent | undefined {
  const event = frame.header.event as ProcessEvent | undefined
  if (!event || event.type === 'exit') return event
  return { ...event, data: frame.body }
}

export async function* decodeFrames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of source) {
    rest = rest.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk])
    for (let size = frameSize(rest); size !== undefined && rest.byteLength >= size; size = frameSize(rest)) {
      const headEnd = 8 + rest.readUInt32BE(0)
      yield { header: JSON.parse(rest.toString('utf8', 8, headEnd)), body: rest.subarray(headEnd, size) }
      rest = rest.subarray(size)
    }
  }
}

function frameSize(buffer: Buffer): number | undefined {
  return buffer.byteLength < 8 ? undefined : 8 + buffer.readUInt32BE(0) + buffer.readUInt32BE(4)
}

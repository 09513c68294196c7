import type { IncomingMessage } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import { nextTurn, stepChars } from '../large-texts.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

export interface BodyLimits {
  readonly maxBytes: number
  readonly maxMs: number
  /** Takes memory from the budget; throws when the budget is used up. */
  readonly take?: (bytes: number) => void
}

/** Reads a JSON body in strict UTF-8, with limits on size and time. An empty body is `{}`. */
export async function readJson(payload: IncomingMessage, options: BodyLimits): Promise<unknown> {
  const declared = Number(payload.headers['content-length'] ?? 0)
  if (declared > options.maxBytes) throw tooLarge(options.maxBytes)
  const bytes = await readBytes(payload, options)
  if (bytes.length === 0) return {}
  if (bytes.length > stepChars) await nextTurn()
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'The body is not UTF-8.', {
      cause,
      hint: 'Send JSON in UTF-8.',
    })
  }
  try {
    return JSON.parse(text)
  } catch (cause) {
    // Also catches the RangeError of text that is nested too deeply.
    throw new SandboxError('invalid_argument', 'The body is not JSON.', {
      cause,
      hint: 'Send a JSON object.',
    })
  }
}

/** Reads a whole body, with limits on size and time. */
export function readBytes(payload: IncomingMessage, { maxBytes, maxMs, take }: BodyLimits): Promise<Buffer> {
  if (payload.complete) return wholeBody(payload, maxBytes)
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const timer = setTimeout(
      () => fail(new SandboxError('timeout', `The body did not arrive within ${maxMs} ms.`)),
      maxMs,
    )
    const fail = (error: Error) => {
      clearTimeout(timer)
      payload.removeAllListeners('data').resume()
      reject(error)
    }
    payload.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) return fail(tooLarge(maxBytes))
      try {
        take?.(chunk.length)
        chunks.push(chunk)
      } catch (error) {
        fail(error as Error)
      }
    })
    payload.on('end', () => {
      clearTimeout(timer)
      resolve(joined(chunks))
    })
    payload.on('error', fail)
    payload.on('aborted', () => fail(new SandboxError('aborted', 'The client disconnected.')))
  })
}

/** Reads a body that arrived together with the head, as most do, without waiting. */
async function wholeBody(payload: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  for (let chunk = payload.read(); chunk !== null; chunk = payload.read()) chunks.push(chunk)
  const bytes = joined(chunks)
  if (bytes.length > maxBytes) throw tooLarge(maxBytes)
  return bytes
}

function joined(chunks: readonly Buffer[]): Buffer {
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
}

function tooLarge(maxBytes: number): SandboxError {
  return new SandboxError('too_large', `The body is larger than ${maxBytes} bytes.`, {})
}

/** A body as a stream of chunks. Throws when the sender pauses for too long. */
export async function* bodyChunks(
  payload: NodeJS.ReadableStream,
  idleMs: number,
): AsyncGenerator<Uint8Array> {
  const message = payload as IncomingMessage
  let timer: NodeJS.Timeout | undefined
  const wait = () => {
    clearTimeout(timer)
    timer = setTimeout(
      () => message.destroy(new SandboxError('timeout', 'The body stopped arriving.')),
      idleMs,
    )
  }
  try {
    wait()
    // By default, leaving the loop early destroys the message and its connection.
    for await (const chunk of message.iterator({ destroyOnReturn: false })) {
      clearTimeout(timer)
      yield chunk as Uint8Array
      wait()
    }
    if (!message.complete) throw new SandboxError('aborted', 'The client disconnected.')
  } finally {
    clearTimeout(timer)
    // Read and discard the rest, so that the next request on the connection can be parsed.
    message.on('error', () => {}).resume()
  }
}

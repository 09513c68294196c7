import type { IncomingMessage, ServerResponse } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { beginStream, endedBy } from '../../../http/event-streams.ts'
import { translate } from '../../../http/problems.ts'
import { readBytes } from '../../../http/request-body.ts'
import { bodyBudget } from '../../../http/response-memory.ts'
import type { Scope } from '../../../keys/index.ts'
import type { FrontPlace } from '../../front.ts'
import type { FrontCall } from '../../shared/route.ts'
import { callCode, isGone } from '../refusal.ts'
import type { DataPlane, Entered } from './data-plane.ts'

/**
 * The part of the Connect protocol with JSON that E2B's SDKs use. A unary call is a POST with one message. A stream
 * answers with frames:
 *
 *     [flags: 1][length: 4, big-endian][JSON]
 *
 * The last frame has flag 2 and tells how the stream ended. A stream that fails still has status 200; its last frame
 * has the error.
 */
export type Message = Readonly<Record<string, unknown>>

export interface Call extends Entered {
  readonly message: Message
  /** Fires when the client disconnects or the daemon stops. */
  readonly signal: AbortSignal
  /** The client's deadline. */
  readonly deadlineMs?: number
}

export class ConnectService {
  readonly #app: FastifyInstance
  readonly #place: FrontPlace
  readonly #plane: DataPlane

  constructor(app: FastifyInstance, place: FrontPlace, plane: DataPlane) {
    this.#app = app
    this.#place = place
    this.#plane = plane
  }

  unary(path: string, scope: Scope, handle: (call: Call) => Promise<object>): void {
    this.#plane.route(this.#app, {
      method: 'POST',
      url: path,
      scope,
      handle: async (call) => {
        const entered = await this.#plane.enter(call.request)
        return handle({
          ...entered,
          message: messageOf(call.body),
          signal: call.signal,
          ...deadlineOf(call.request),
        })
      },
    })
  }

  /** `keepalive`: the frame to send when the stream is silent for a while. */
  stream(path: string, scope: Scope, keepalive: object, handle: (call: Call) => AsyncIterable<object>): void {
    this.#plane.route(this.#app, {
      method: 'POST',
      url: path,
      scope,
      streamed: true,
      handle: (call) => this.#stream(call, keepalive, handle),
    })
  }

  async #stream(
    { request, reply, signal: gone }: FrontCall,
    keepalive: object,
    handle: (call: Call) => AsyncIterable<object>,
  ): Promise<void> {
    const { streams, log } = this.#place.services
    const { signal: ending, leave } = streams.enter(request.caller)
    const signal = AbortSignal.any([ending, gone])
    const sender = new Sender(reply, keepaliveOf(request), keepalive)
    try {
      const entered = await this.#plane.enter(request)
      const message = await this.#envelope(request)
      for await (const answer of handle({ ...entered, message, signal, ...deadlineOf(request) }))
        await sender.send(answer, signal)
      sender.end({})
    } catch (error) {
      const known = ending.aborted && SandboxError.is(error, 'aborted') ? endedBy(ending) : translate(error)
      // SDKs expect an HTTP status for these errors, as E2B's proxy sends it.
      if (!reply.raw.headersSent && isGone(known)) {
        sender.drop()
        throw known
      }
      if (known.code === 'internal')
        log.error(
          { front: 'e2b', request: request.id, err: known.cause ?? known },
          'unexpected error in a request',
        )
      sender.end({ error: { code: callCode(known), message: known.message } })
    } finally {
      leave()
    }
  }

  async #envelope(request: FastifyRequest): Promise<Message> {
    const { config, patience, sessions } = this.#place.services
    const take = bodyBudget(sessions.memory, request)
    const limits = { maxBytes: config.max_body_mb * 1_048_576, maxMs: patience.bodyMs, take }
    const bytes = await readBytes(request.body as IncomingMessage, limits)
    const length = bytes.length >= 5 ? bytes.readUInt32BE(1) : -1
    if (bytes[0] !== 0 || length !== bytes.length - 5)
      throw new SandboxError(
        'invalid_argument',
        'The body is not one uncompressed message of the Connect protocol.',
      )
    let value: unknown
    try {
      value = JSON.parse(bytes.subarray(5).toString('utf8'))
    } catch (cause) {
      throw new SandboxError('invalid_argument', 'The message is not JSON.', { cause })
    }
    return messageOf(value)
  }
}

/** Sends frames at the client's pace. The head is sent with the first frame. */
class Sender {
  readonly #raw: ServerResponse
  readonly #beat: NodeJS.Timeout | undefined
  readonly #begin: () => void

  constructor(reply: FastifyReply, keepaliveMs: number, keepalive: object) {
    this.#raw = reply.raw
    this.#begin = () => {
      if (!this.#raw.headersSent) beginStream(reply, 'application/connect+json')
    }
    if (keepaliveMs >= 1000)
      this.#beat = setInterval(() => {
        // No heartbeat for a client that does not read: it would only fill the buffer.
        if (this.#raw.headersSent && !this.#raw.writableNeedDrain) this.#raw.write(frame(0, keepalive))
      }, keepaliveMs).unref()
  }

  async send(message: object, signal: AbortSignal): Promise<void> {
    this.#begin()
    if (signal.aborted || this.#raw.write(frame(0, message))) return
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#raw.off('drain', done).off('close', done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      this.#raw.on('drain', done).on('close', done)
      signal.addEventListener('abort', done, { once: true })
    })
  }

  drop(): void {
    clearInterval(this.#beat)
  }

  end(last: object): void {
    this.drop()
    this.#begin()
    this.#raw.end(frame(2, last))
  }
}

function frame(flags: number, message: object): Buffer {
  const json = Buffer.from(JSON.stringify(message))
  const bytes = Buffer.allocUnsafe(5 + json.length)
  bytes[0] = flags
  bytes.writeUInt32BE(json.length, 1)
  json.copy(bytes, 5)
  return bytes
}

/** The limit of timers. A timer with a longer delay would fire at once. */
const longestMs = 2 ** 31 - 1

function keepaliveOf({ headers }: FastifyRequest): number {
  return Math.min(Number(headers['keepalive-ping-interval'] ?? 50) * 1000, longestMs)
}

function deadlineOf({ headers }: FastifyRequest): { deadlineMs?: number } {
  const text = headers['connect-timeout-ms']
  return typeof text === 'string' && /^\d{1,10}$/.test(text) && Number(text) > 0
    ? { deadlineMs: Math.min(Number(text), longestMs) }
    : {}
}

function messageOf(value: unknown): Message {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Message
  throw new SandboxError('invalid_argument', 'The message must be a JSON object.')
}

/** Fields of a message come from outside and may have any type. */
export function text(message: Message, name: string): string {
  const value = message[name]
  if (typeof value === 'string') return value
  throw new SandboxError('invalid_argument', `${name} must be a string.`)
}

export function part(message: Message, name: string): Message | undefined {
  const value = message[name]
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Message) : undefined
}

export function base64(message: Message, name: string): Uint8Array | undefined {
  const value = message[name]
  return typeof value === 'string' ? Buffer.from(value, 'base64') : undefined
}

/** A stream that ends with `timeout` when its deadline has passed. */
export async function* within<T>(
  { deadlineMs, signal }: Pick<Call, 'deadlineMs' | 'signal'>,
  open: (signal: AbortSignal) => AsyncIterable<T>,
): AsyncGenerator<T> {
  if (deadlineMs === undefined) return yield* open(signal)
  const clock = AbortSignal.timeout(deadlineMs)
  try {
    yield* open(AbortSignal.any([signal, clock]))
  } catch (error) {
    if (!clock.aborted || signal.aborted) throw error
  }
  if (clock.aborted && !signal.aborted) throw new SandboxError('timeout', 'The deadline has passed.')
}

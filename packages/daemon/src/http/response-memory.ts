import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { jsonChunks, longChars } from '../large-texts.ts'
import type { ResultAccount, ResultMemory } from '../sessions/index.ts'

/** Smaller responses are not counted. */
const smallBytes = 64 * 1024
const accounts = new WeakMap<FastifyRequest, ResultAccount>()
const replies = new WeakMap<FastifyRequest, FastifyReply>()

/** The memory account of this response. Released when the response is sent or the client disconnects. */
export function accountOf(memory: ResultMemory, request: FastifyRequest, reply: FastifyReply): ResultAccount {
  const known = accounts.get(request)
  if (known) return known
  const account = memory.open(request.caller?.projectId ?? '')
  accounts.set(request, account)
  reply.raw.once('close', () => account.release())
  if (reply.raw.closed) account.release()
  return account
}

/** Refuses a large response when unread responses have used up the project's memory. */
export function limitAnswers(app: FastifyInstance, memory: ResultMemory): void {
  app.addHook('onRequest', (request, reply, done) => {
    replies.set(request, reply)
    done()
  })
  const holds = (request: FastifyRequest, reply: FastifyReply, size: number): boolean => {
    if (size <= smallBytes || !request.caller) return true
    const account = accountOf(memory, request, reply)
    if (size > Math.max(account.room, account.held + smallBytes)) return false
    account.hold(size)
    return true
  }
  app.addHook('preSerialization', (request, reply, payload, done) => {
    const chars = longChars(payload)
    if (chars === 0) return done(null, payload)
    // Take the memory before encoding, because many responses may be waiting to be encoded.
    if (!holds(request, reply, chars)) return done(tooMuch())
    encode(payload as Record<string, unknown>).then((bytes) => {
      reply.serializer(() => bytes as unknown as string)
      done(null, payload)
    }, done)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const size = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0
    if (holds(request, reply, size)) done(null, payload)
    else done(tooMuch())
  })
}

async function encode(payload: Readonly<Record<string, unknown>>): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of jsonChunks(payload)) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}

/** Counts a large request body against the project's memory until the response is sent. */
export function bodyBudget(memory: ResultMemory, request: FastifyRequest): (bytes: number) => void {
  let free = smallBytes
  return (bytes) => {
    free -= bytes
    if (free >= 0) return
    if (!accountOf(memory, request, replies.get(request)!).take(bytes)) throw tooMuch()
  }
}

function tooMuch(): SandboxError {
  return new SandboxError('rate_limited', 'The project has too many large responses in flight.', {
    details: { retryAfterMs: 1_000 },
    hint: 'Read pending responses, request less, or ask the operator to raise result_memory_mb.',
  })
}

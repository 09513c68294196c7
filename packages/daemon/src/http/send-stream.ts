import type { ServerResponse } from 'node:http'
import { type ByteSource, takeSource } from '@sandkasten/sdk/provider'
import type { FastifyReply } from 'fastify'

/**
 * Sends bytes as they arrive. The head waits for the first bytes, so that an immediate failure gets its HTTP status. A
 * later failure cuts the connection, so that the client sees an incomplete response. A file may change its size while
 * it is read: never more than the declared length is sent, and less is a failure.
 */
export async function sendStream(
  reply: FastifyReply,
  source: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
  length?: number,
): Promise<void> {
  const lender = 'getReader' in source ? takeSource(source) : undefined
  const pieces = lender ?? piecesOf(source as AsyncIterable<Uint8Array>, reply.raw)
  const answer = new Answer(reply, length)
  const { raw } = reply
  const leave = () => pieces.cancel()
  raw.once('close', leave)
  try {
    await pieces.lend((piece, done) => {
      if (!answer.send(piece, done)) pieces.cancel()
    })
    answer.end()
  } catch (error) {
    if (!raw.headersSent) throw error
    answer.fail()
  } finally {
    raw.off('close', leave)
  }
}

class Answer {
  readonly #reply: FastifyReply
  readonly #length: number | undefined
  #sent = 0

  constructor(reply: FastifyReply, length: number | undefined) {
    this.#reply = reply
    this.#length = length
  }

  /** Returns false when no more data is wanted. */
  send(piece: Uint8Array, done: () => void): boolean {
    this.#begin()
    const { raw } = this.#reply
    if (raw.writableEnded) {
      done()
      return false
    }
    const left = (this.#length ?? Number.POSITIVE_INFINITY) - this.#sent
    const wanted = piece.length > left ? piece.subarray(0, left) : piece
    this.#sent += wanted.length
    raw.write(wanted, done)
    // The client has everything. Its next request may end the sandbox before the source reports its end.
    if (this.#sent === this.#length) raw.end()
    return wanted === piece && !raw.destroyed
  }

  end(): void {
    this.#begin()
    if (this.#sent === (this.#length ?? this.#sent)) this.#reply.raw.end()
    else this.fail()
  }

  /** Cuts the connection after the sent data, unless the response is complete. */
  fail(): void {
    if (!this.#reply.raw.writableEnded) this.#reply.raw.socket?.destroySoon()
  }

  #begin(): void {
    const { raw } = this.#reply
    if (raw.headersSent) return
    const headers = Object.entries(this.#reply.getHeaders()).filter(([, value]) => value !== undefined)
    raw.writeHead(this.#reply.statusCode, {
      ...(Object.fromEntries(headers) as Record<string, string>),
      ...(this.#length === undefined ? {} : { 'content-length': this.#length }),
      'x-request-id': this.#reply.request.id,
    })
    this.#reply.hijack()
  }
}

/** Wraps an iterable as a lending source. Reads at the client's pace. */
function piecesOf(
  source: AsyncIterable<Uint8Array>,
  raw: ServerResponse,
): Pick<ByteSource, 'lend' | 'cancel'> {
  const iterator = source[Symbol.asyncIterator]()
  let cancelled = false
  return {
    async lend(take) {
      while (!cancelled) {
        const { done, value } = await iterator.next()
        if (done) return
        if (!cancelled) take(value, () => {})
        if (raw.writableNeedDrain) await drained(raw)
      }
      await iterator.return?.()
    },
    cancel() {
      cancelled = true
    },
  }
}

/** Resolves when the buffer is empty or the connection is closed. */
function drained(raw: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      raw.off('drain', settle)
      raw.off('close', settle)
      resolve()
    }
    raw.on('drain', settle)
    raw.on('close', settle)
    if (raw.destroyed) settle()
  })
}

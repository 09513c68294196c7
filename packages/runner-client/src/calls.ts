/** Sends the requests of typed operations: with a timeout, an AbortSignal, and a check of the response. */
import { SandboxError } from '@sandkasten/sdk'
import type { CborMap } from './cbor.ts'
import type { RunnerConnection } from './connection.ts'
import { ProtocolError, timedOut } from './errors.ts'
import type { RunnerStream } from './stream.ts'

export interface CallOptions {
  signal?: AbortSignal
  /** The timeout of the runner's response. Default 60 s. */
  answerTimeoutMs?: number
}

const defaultAnswerMs = 60_000

export async function call<T>(
  connection: RunnerConnection,
  op: string,
  body: CborMap,
  check: (result: CborMap) => T,
  options: CallOptions = {},
): Promise<T> {
  const stream = connection.request(op, body)
  return checked(connection, check, await limited(stream, stream.done, options))
}

/** Waits for the stream to open, and checks its OPEN body. */
export async function opened<T>(
  connection: RunnerConnection,
  stream: RunnerStream,
  check: (body: CborMap) => T,
  options: CallOptions = {},
): Promise<T> {
  return checked(connection, check, await limited(stream, stream.opened, options))
}

/** Waits without a timeout, for the end of a process. */
export async function ended<T>(
  connection: RunnerConnection,
  stream: RunnerStream,
  check: (body: CborMap) => T,
  signal?: AbortSignal,
): Promise<T> {
  return checked(
    connection,
    check,
    await limited(stream, stream.done, { signal, answerTimeoutMs: Number.POSITIVE_INFINITY }),
  )
}

export function checked<T>(connection: RunnerConnection, check: (body: CborMap) => T, body: CborMap): T {
  try {
    return check(body)
  } catch (error) {
    if (error instanceof ProtocolError) throw connection.violated(error)
    throw error
  }
}

/** An aborted wait cancels the stream; programs in the sandbox continue. */
async function limited<T>(stream: RunnerStream, answer: Promise<T>, options: CallOptions): Promise<T> {
  const { signal, answerTimeoutMs = defaultAnswerMs } = options
  if (signal === undefined && answerTimeoutMs === Number.POSITIVE_INFINITY) return answer
  const { promise, reject } = Promise.withResolvers<never>()
  const giveUp = (error: Error): void => {
    stream.cancel()
    reject(error)
  }
  const abort = (): void =>
    giveUp(new SandboxError('aborted', `${stream.op} was aborted`, { cause: signal?.reason }))
  if (signal?.aborted) abort()
  signal?.addEventListener('abort', abort, { once: true })
  const timer = Number.isFinite(answerTimeoutMs)
    ? setTimeout(() => giveUp(timedOut(stream.op, answerTimeoutMs)), answerTimeoutMs)
    : undefined
  try {
    return await Promise.race([answer, promise])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

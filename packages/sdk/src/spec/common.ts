/** Types that several parts of the contract share. */

/** Every call can be cancelled. A cancelled call rejects with `aborted`; what it changed is undone where it can be. */
export interface CallOptions {
  signal?: AbortSignal
}

/**
 * File content: a `Uint8Array` whose `toString()` decodes (UTF-8 unless told otherwise), so that code written
 * for Node's `Buffer` works in a browser too. On Node it is a `Buffer`.
 */
export interface Bytes extends Uint8Array<ArrayBuffer> {
  toString(encoding?: 'utf8' | 'utf-8' | 'latin1' | 'hex' | 'base64'): string
}

/** Anything that can be written to a file or to a program's stdin. Streams are read with backpressure. */
export type BytesSource =
  | string
  | Uint8Array
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array | string>

/** The signals that every provider understands. */
export type ProcessSignal =
  | 'SIGTERM'
  | 'SIGKILL'
  | 'SIGINT'
  | 'SIGHUP'
  | 'SIGQUIT'
  | 'SIGUSR1'
  | 'SIGUSR2'
  | 'SIGSTOP'
  | 'SIGCONT'

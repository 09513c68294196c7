/** Every call can be cancelled. A cancelled call rejects with `aborted` and undoes its changes where possible. */
export interface CallOptions {
  signal?: AbortSignal
}

/**
 * File content: a `Uint8Array` whose `toString()` decodes text (default UTF-8), so that code written for Node's
 * `Buffer` also works in a browser. On Node it is a `Buffer`.
 */
export interface Bytes extends Uint8Array<ArrayBuffer> {
  toString(encoding?: 'utf8' | 'utf-8' | 'latin1' | 'hex' | 'base64'): string
}

/** Content for a file or for a program's stdin. Streams are read with backpressure. */
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

/** Environment variables. A variable that is `undefined` is ignored, as if it were absent. */
export type Environment = Readonly<Record<string, string | undefined>>

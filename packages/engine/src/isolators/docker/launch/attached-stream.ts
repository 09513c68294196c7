import { Duplex } from 'node:stream'

/** The daemon's header before each chunk of output: channel, three zero bytes, length. */
const HEADER = 8
const [STDOUT, STDERR] = [1, 2]
/** The daemon copies in chunks of 32 KiB. A header that claims more than this is invalid. */
const MAX_FRAME = 16 * 1024 * 1024
const KEPT_ERRORS = 4096

/**
 * The stream of an exec as plain bytes. Writes go to the program's stdin; reads return its stdout, which arrives in
 * frames between those of stderr. Applies backpressure to the daemon, so memory does not grow with a slow reader.
 */
export class ExecStream extends Duplex {
  /** The beginning of the program's stderr. */
  errors = ''
  readonly #raw: Duplex
  #pending: Buffer = Buffer.alloc(0)
  #channel = 0
  #left = 0

  constructor(raw: Duplex) {
    super({ allowHalfOpen: true })
    this.#raw = raw
    raw.on('data', (chunk: Buffer) => this.#receive(chunk))
    raw.once('end', () => this.#finish())
    raw.once('error', (error) => this.destroy(error))
    raw.once('close', () => this.#finish())
  }

  override _read(): void {
    this.#raw.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#raw.write(chunk, done)
  }

  override _writev(
    chunks: { chunk: Buffer; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    this.#raw.write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#raw.end(() => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#raw.destroy()
    done(error)
  }

  #receive(chunk: Buffer): void {
    let rest = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    this.#pending = Buffer.alloc(0)
    let more = true
    while (rest.length > 0) {
      if (this.#left === 0) {
        if (rest.length < HEADER) {
          this.#pending = rest
          break
        }
        this.#channel = rest.readUInt8(0)
        this.#left = rest.readUInt32BE(4)
        if ((this.#channel !== STDOUT && this.#channel !== STDERR) || this.#left > MAX_FRAME) {
          this.destroy(new Error('the daemon’s stream has a malformed frame header'))
          return
        }
        rest = rest.subarray(HEADER)
        continue
      }
      const piece = rest.subarray(0, this.#left)
      rest = rest.subarray(piece.length)
      this.#left -= piece.length
      if (this.#channel === STDOUT) more = this.push(piece)
      else if (this.errors.length < KEPT_ERRORS) this.errors += piece.toString('utf8')
    }
    if (!more) this.#raw.pause()
  }

  /** The program or the daemon has ended: no more data arrives, and writes go nowhere. */
  #finish(): void {
    if (this.destroyed || this.readableEnded) return
    if (this.#left > 0 || this.#pending.length > 0)
      this.destroy(new Error('the daemon’s stream ended within a frame'))
    else this.push(null)
  }
}

import { execFile } from 'node:child_process'
import { constants, openSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { promisify } from 'node:util'
import { guarded } from '../../../folder/errors.ts'
import { randomId } from '../../../shared/ids.ts'
import type { HeadTail } from '../../../shared/output/collect.ts'
import type { ShellExecOptions } from '../../../spec/index.ts'

export class OutputPipe {
  readonly file: string
  readonly script: string
  readonly #kept: HeadTail
  readonly #socket: Socket
  readonly #writer: Awaited<ReturnType<typeof open>>
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #onOutput: Listener | undefined
  #mark: Buffer | undefined
  #held: Buffer = Buffer.alloc(0)
  #done = false
  #listenerError: unknown
  #resolveMark: () => void = () => {}

  static async open(base: string, kept: HeadTail, onOutput: Listener | undefined): Promise<OutputPipe> {
    const file = `${base}.out`
    return guarded('The shell’s output pipe could not be created', async () => {
      await promisify(execFile)('mkfifo', ['-m', '600', file])
      // Open the reading end first, without blocking; then our own writing end, to write the mark.
      // The socket owns the descriptor and closes it; a FileHandle would close it again.
      const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
      const socket = new Socket({ fd, readable: true, writable: false })
      const writer = await open(file, constants.O_WRONLY)
      return new OutputPipe(base, file, socket, writer, kept, onOutput)
    })
  }

  private constructor(
    base: string,
    file: string,
    socket: Socket,
    writer: Awaited<ReturnType<typeof open>>,
    kept: HeadTail,
    onOutput: Listener | undefined,
  ) {
    this.script = base
    this.file = file
    this.#socket = socket
    this.#writer = writer
    this.#kept = kept
    this.#onOutput = onOutput
    socket.on('error', () => this.#resolveMark())
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
  }

  get truncated(): boolean {
    return this.#kept.truncated
  }

  text(): string {
    return this.#kept.text()
  }

  /** Resolves when all output so far has been read. */
  async finish(): Promise<void> {
    const mark = Buffer.from(randomId(26))
    const seen = new Promise<void>((resolve) => {
      this.#resolveMark = resolve
    })
    this.#mark = mark
    await this.#writer.write(mark)
    await seen
    this.#tell(this.#decoder.decode())
    if (this.#listenerError !== undefined) throw this.#listenerError
  }

  /** A background job may keep writing. Its output is discarded, and does not keep this process alive. */
  async remove(): Promise<void> {
    this.#done = true
    this.#socket.unref()
    await this.#writer.close()
    await Promise.all([this.file, this.script].map((file) => rm(file, { force: true })))
  }

  #take(chunk: Buffer): void {
    if (this.#done) return
    if (!this.#mark) return this.#keep(chunk)
    const all = Buffer.concat([this.#held, chunk])
    const at = all.indexOf(this.#mark)
    // The mark may be split across chunks: hold back a possible beginning of it.
    const ready = at === -1 ? Math.max(0, all.length - this.#mark.length + 1) : at
    this.#held = at === -1 ? all.subarray(ready) : Buffer.alloc(0)
    this.#keep(all.subarray(0, ready))
    if (at === -1) return
    this.#done = true
    this.#resolveMark()
  }

  #keep(chunk: Buffer): void {
    this.#kept.push(chunk)
    if (this.#onOutput) this.#tell(this.#decoder.decode(chunk, { stream: true }))
  }

  #tell(text: string): void {
    if (text === '' || this.#listenerError !== undefined) return
    const failed = (error: unknown) => {
      this.#listenerError = error
    }
    try {
      const busy = this.#onOutput?.(text)
      if (!(busy instanceof Promise)) return
      this.#socket.pause()
      void busy.catch(failed).finally(() => this.#socket.resume())
    } catch (error) {
      failed(error)
    }
  }
}

type Listener = NonNullable<ShellExecOptions['onOutput']>

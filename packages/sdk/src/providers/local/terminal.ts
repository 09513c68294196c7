import { execFile } from 'node:child_process'
import { readFile, readlink } from 'node:fs/promises'
import { promisify } from 'node:util'
import { checkCount } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { encode } from '../../shared/output/bytes.ts'
import { quoteArgs } from '../../shared/quote.ts'
import type {
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  SandboxTerminal,
} from '../../spec/index.ts'
import { statusOf } from './process.ts'
import { Child } from './programs/child.ts'
import { childrenOf } from './programs/process-tree.ts'

export interface LocalTerminalOptions {
  readonly terminalId: string
  readonly marker: string
  readonly cmd: string
  readonly args: readonly string[]
  readonly cols: number
  readonly rows: number
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/**
 * A pseudo-terminal through util-linux's script(1), which creates one and relays it over its stdin and stdout. Node cannot
 * create one, and a native module would complicate the installation. stty sets the size on the terminal's device, and the
 * kernel notifies the program.
 */
export class LocalTerminal implements SandboxTerminal {
  readonly terminalId: string
  readonly #child: Child

  static async open(options: LocalTerminalOptions): Promise<LocalTerminal> {
    const { cols, rows, cmd, args } = options
    // The size is set before the program starts. `exec` leaves no shell between script and the program.
    const line = `stty rows ${rows} cols ${cols}; ${readyMark} exec ${quoteArgs([cmd, ...args])}`
    const child = await Child.start({
      marker: options.marker,
      cmd: 'script',
      args: ['--quiet', '--flush', '--return', '--command', line, '/dev/null'],
      cwd: options.cwd,
      // script runs the line with $SHELL.
      env: { ...options.env, SHELL: '/bin/sh' },
      stdin: true,
      outputBufferBytes: 8 * 1024 * 1024,
    })
    return new LocalTerminal(options.terminalId, child)
  }

  #resizing: Promise<void> = Promise.resolve()

  private constructor(terminalId: string, child: Child) {
    this.terminalId = terminalId
    this.#child = child
  }

  get ended(): Promise<void> {
    return this.#child.log.ended
  }

  /** Input arrives after the resizes that were requested before it. */
  async write(data: string | Uint8Array): Promise<void> {
    await this.#resizing
    await this.#child.write(encode(data))
  }

  async resize(size: { cols: number; rows: number }): Promise<void> {
    const cols = checkCount(size.cols, 'cols', 1000)
    const rows = checkCount(size.rows, 'rows', 1000)
    // One at a time, so that the last requested size wins.
    const turn = this.#resizing.then(async () => {
      const device = await this.#device()
      await promisify(execFile)('stty', ['-F', device, 'rows', String(rows), 'cols', String(cols)])
    })
    this.#resizing = turn.catch(() => {})
    await turn
  }

  output({ after = 0, signal }: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    return this.#child.log.read(after, signal)
  }

  async kill(signal: ProcessSignal = 'SIGTERM'): Promise<boolean> {
    return this.#child.kill(signal)
  }

  async status(): Promise<ProcessStatus> {
    return statusOf(this.#child)
  }

  /** The terminal is the stdin of script's child. */
  async #device(): Promise<string> {
    for (let tries = 0; this.#child.running && tries < 200; tries += 1) {
      for (const pid of await childrenOf(this.#child.pid)) {
        // Until it becomes the program, the child is a shell that is about to set the first size.
        const environ = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
        if (environ.split('\0').includes(readyMark)) return readlink(`/proc/${pid}/fd/0`)
      }
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    throw new SandboxError('not_running', 'The terminal’s program has ended.', { provider: 'local' })
  }
}

const readyMark = 'SANDKASTEN_TERMINAL=ready'

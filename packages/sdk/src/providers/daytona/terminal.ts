import { checkCount, invalid } from '../../core/validate.ts'
import { randomId } from '../../shared/ids.ts'
import { encode } from '../../shared/output/bytes.ts'
import type {
  CallOptions,
  OpenTerminalOptions,
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  SandboxTerminal,
} from '../../spec/index.ts'
import type { Incarnation } from './incarnation.ts'
import { DaytonaProcess } from './process.ts'

const keptBytes = 1024 * 1024
/** Prefers bash if the image has it. */
const loginShell = {
  cmd: 'sh',
  args: ['-c', 'if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi'],
}

/** A pseudo-terminal with a keeper, like any program. So a client can disconnect, reconnect, and read it from the beginning. */
export class DaytonaTerminal implements SandboxTerminal {
  readonly terminalId: string
  readonly #process: DaytonaProcess

  private constructor(terminalId: string, process: DaytonaProcess) {
    this.terminalId = terminalId
    this.#process = process
  }

  /** Opens the terminal, or finds the open one with this id. */
  static async open(
    incarnation: Incarnation,
    options: OpenTerminalOptions & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<DaytonaTerminal> {
    const { terminalId = randomId(), cmd, args = [], env = {}, cwd, cols, rows } = options
    if (!/^[A-Za-z0-9][\w.-]{0,99}$/.test(terminalId))
      throw invalid('`terminalId` must be 1 to 100 letters, digits, dots, dashes or underscores.')
    const spec = {
      ...(cmd === undefined ? loginShell : { cmd, args }),
      env: { TERM: 'xterm-256color', ...env },
      cwd,
      // A separate namespace: a process may have the same id.
      execId: `~${terminalId}`,
      stdin: 'pipe',
      detached: true,
      reading: false,
      outputBufferBytes: keptBytes,
      terminal: { cols, rows },
    } as const
    return new DaytonaTerminal(terminalId, await DaytonaProcess.start(incarnation, spec, call))
  }

  write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    return this.#process.write(encode(data), options)
  }

  async resize(size: { cols: number; rows: number }, options: CallOptions = {}): Promise<void> {
    const checked = { cols: checkCount(size?.cols, 'cols', 1000), rows: checkCount(size?.rows, 'rows', 1000) }
    await this.#process.resize(checked, options)
  }

  output({ after = 0, signal }: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    return this.#process.events(after, signal)
  }

  kill(signal: ProcessSignal = 'SIGTERM', options: CallOptions = {}): Promise<boolean> {
    return this.#process.kill(signal, options)
  }

  status(options: CallOptions = {}): Promise<ProcessStatus> {
    return this.#process.status(options)
  }
}

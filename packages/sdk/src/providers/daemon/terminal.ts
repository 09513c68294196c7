import type { SessionTerminal } from '../../client/index.ts'
import { checkCount } from '../../core/validate.ts'
import type {
  CallOptions,
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  SandboxTerminal,
} from '../../spec/index.ts'

/** A terminal of the session. It has one connection, so one reader at a time. */
export class DaemonTerminal implements SandboxTerminal {
  readonly terminalId: string
  readonly #terminal: SessionTerminal

  constructor(terminal: SessionTerminal) {
    this.#terminal = terminal
    this.terminalId = terminal.terminalId
  }

  write(data: string | Uint8Array, options?: CallOptions): Promise<void> {
    return this.#terminal.write(data, options)
  }

  async resize(size: { cols: number; rows: number }, options?: CallOptions): Promise<void> {
    const checked = { cols: checkCount(size?.cols, 'cols', 1000), rows: checkCount(size?.rows, 'rows', 1000) }
    await this.#terminal.resize(checked, options)
  }

  output(options?: OutputOptions): AsyncIterable<ProcessEvent> {
    return this.#terminal.output(options)
  }

  kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean> {
    return this.#terminal.kill(signal, options)
  }

  status(options?: CallOptions): Promise<ProcessStatus> {
    return this.#terminal.status(options)
  }
}

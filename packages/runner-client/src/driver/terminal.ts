import type {
  CallOptions,
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  SandboxTerminal,
} from '@sandkasten/sdk'
import { checkCount, encode } from '@sandkasten/sdk/provider'
import type { RunnerClient } from '../index.ts'
import type { DrivenProcess } from './process.ts'

export class DrivenTerminal implements SandboxTerminal {
  readonly terminalId: string
  readonly #process: DrivenProcess
  readonly #client: () => Promise<RunnerClient>

  constructor(process: DrivenProcess, client: () => Promise<RunnerClient>) {
    this.terminalId = process.execId
    this.#process = process
    this.#client = client
  }

  async write(data: string | Uint8Array): Promise<void> {
    await this.#process.write(encode(data))
  }

  async resize(size: { cols: number; rows: number }, { signal }: CallOptions = {}): Promise<void> {
    const checked = { cols: checkCount(size?.cols, 'cols', 1000), rows: checkCount(size?.rows, 'rows', 1000) }
    await (await this.#client()).resize(this.terminalId, checked, { signal })
  }

  output({ after = 0, signal }: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    return this.#process.events(after, signal)
  }

  kill(signal: ProcessSignal = 'SIGTERM', call: CallOptions = {}): Promise<boolean> {
    return this.#process.kill(signal, call)
  }

  status(call: CallOptions = {}): Promise<ProcessStatus> {
    return this.#process.status(call)
  }
}

import { SandboxError } from '../errors.ts'
import { HeadTail } from '../shared/output/collect.ts'
import { partialBytes } from '../shared/output/partial.ts'
import type { CommandResult, ExitEvent, OutputBudget, OutputEvent } from '../spec/index.ts'
import type { ProcessDriver } from './driver.ts'

export const defaultMaxOutputBytes = 4 * 1024 * 1024

export interface OutputListeners {
  readonly onStdout?: ((text: string) => void) | undefined
  readonly onStderr?: ((text: string) => void) | undefined
}

export interface CollectorOptions extends OutputListeners {
  readonly maxBytes: number
  readonly outputBudget?: OutputBudget | undefined
}

/** Reads a process until its exit and keeps a bounded part of its output. */
export class OutputCollector {
  readonly #kept: { readonly stdout: HeadTail; readonly stderr: HeadTail }
  readonly #listeners: TextListeners
  readonly #budget: OutputBudget | undefined
  #missed = false

  constructor({ maxBytes, outputBudget, ...listeners }: CollectorOptions) {
    const kept = () => new HeadTail(maxBytes, outputBudget)
    this.#kept = { stdout: kept(), stderr: kept() }
    this.#listeners = new TextListeners(listeners)
    this.#budget = outputBudget
  }

  async read(driver: ProcessDriver, signal?: AbortSignal): Promise<CommandResult> {
    const exit = await readToEnd(driver, signal, {
      output: (event) => {
        this.#kept[event.type].push(event.data)
        this.#listeners.push(event)
        return this.#budget?.pace?.(event.data.byteLength)
      },
      missed: () => {
        this.#missed = true
      },
    })
    this.#listeners.flush()
    const { exitCode, signal: killedBy, timedOut, oom, durationMs } = exit
    const { stdout, stderr } = this.#kept
    return {
      exitCode,
      stdout: stdout.text(),
      stderr: stderr.text(),
      signal: killedBy,
      timedOut,
      truncated: this.#missed || stdout.truncated || stderr.truncated,
      oom,
      durationMs,
    }
  }

  /** The output so far, for the details of an error. */
  partial(): { stdout: string; stderr: string } {
    return { stdout: this.#kept.stdout.text(partialBytes), stderr: this.#kept.stderr.text(partialBytes) }
  }
}

/** Decodes each stream for its listener, without splitting characters. */
export class TextListeners {
  readonly #listeners: OutputListeners
  readonly #decoders = { stdout: decoder(), stderr: decoder() }

  constructor(listeners: OutputListeners) {
    this.#listeners = listeners
  }

  push({ type, data }: OutputEvent): void {
    if (this.#listenerOf(type)) this.#tell(type, this.#decoders[type].decode(data, { stream: true }))
  }

  flush(): void {
    for (const type of ['stdout', 'stderr'] as const) this.#tell(type, this.#decoders[type].decode())
  }

  #tell(type: OutputEvent['type'], text: string): void {
    if (text !== '') this.#listenerOf(type)?.(text)
  }

  #listenerOf(type: OutputEvent['type']) {
    return type === 'stdout' ? this.#listeners.onStdout : this.#listeners.onStderr
  }
}

const decoder = () => new TextDecoder('utf-8', { ignoreBOM: true })

/** Passes on all output and returns the exit. If the beginning was dropped, starts at the oldest event. */
export async function readToEnd(
  driver: ProcessDriver,
  signal: AbortSignal | undefined,
  on: { output: (event: OutputEvent) => Promise<void> | undefined | void; missed?: () => void },
): Promise<ExitEvent> {
  let after = 0
  for (;;) {
    try {
      for await (const event of driver.events(after, signal)) {
        if (event.type === 'exit') return event
        const pause = on.output(event)
        if (pause) await pause
        after = event.seq
      }
    } catch (error) {
      const oldest = SandboxError.is(error, 'gone') ? error.details.oldest : undefined
      if (typeof oldest !== 'number' || oldest - 1 <= after) throw error
      on.missed?.()
      after = oldest - 1
      continue
    }
    throw withoutExit(driver.execId)
  }
}

export function withoutExit(execId: string): SandboxError {
  return new SandboxError('connection_lost', `The output of process ${execId} ended without an exit status.`)
}

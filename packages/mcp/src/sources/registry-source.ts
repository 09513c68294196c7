import type { Hold, SandboxRecord, ScopedRegistry } from '@sandkasten/registry'
import { SandboxError, type SandboxStatus } from '@sandkasten/sdk'
import { abortable } from '@sandkasten/sdk/provider'
import { afterStart, hasEnded, mayRepeat } from './ended.ts'
import type {
  Incarnation,
  OpenSandbox,
  SandboxSource,
  SandboxState,
  StartedProcess,
  StateOptions,
  UseOptions,
} from './source.ts'

export interface RegistrySourceOptions {
  readonly name: string
  /** The record’s id. With it, the source follows a rename, and never reaches another sandbox of the same name. */
  readonly id?: string
  readonly threadId?: string
  /** Shown to others who want to stop the sandbox. Default: `agent`. */
  readonly purpose?: string
  /** How long the sandbox stays held after a call. Default 30 seconds. */
  readonly holdMs?: number
}

/** Tools for a named sandbox. The registry connects to it, starts it, or restores it from its last snapshot. */
export function registrySource(sandboxes: ScopedRegistry, options: RegistrySourceOptions): SandboxSource {
  return new RegistrySource(sandboxes, options)
}

/** Processes of one incarnation. */
interface Processes {
  readonly incarnation: string
  readonly byId: Map<string, StartedProcess>
}

/**
 * Calls may interleave and share one hold. It is released some time after the last call, so that the sandbox can stop
 * when idle, and dropped when the sandbox has ended.
 */
class RegistrySource implements SandboxSource {
  readonly #sandboxes: ScopedRegistry
  readonly #options: Required<Pick<RegistrySourceOptions, 'purpose' | 'holdMs'>> & RegistrySourceOptions
  #held: Promise<Hold> | undefined
  #calls = 0
  #idle: NodeJS.Timeout | undefined
  #processes: Processes = { incarnation: '', byId: new Map() }

  constructor(sandboxes: ScopedRegistry, options: RegistrySourceOptions) {
    this.#sandboxes = sandboxes
    this.#options = { purpose: 'agent', holdMs: 30_000, ...options }
  }

  async use<T>(
    work: (sandbox: OpenSandbox) => Promise<T>,
    { signal, repeatable = false, onProgress, onOpen }: UseOptions = {},
  ): Promise<T> {
    this.#calls += 1
    clearTimeout(this.#idle)
    try {
      for (let attempt = 1; ; attempt += 1) {
        const held = this.#hold(onProgress)
        // Other calls share the hold, so this call's end does not cancel it.
        const hold = await (signal ? abortable(held, signal) : held)
        const { handle, record } = hold
        const incarnation = incarnationOf(hold)
        onOpen?.(incarnation)
        const both = signal ? AbortSignal.any([signal, hold.signal]) : hold.signal
        try {
          const directory = record.directory ?? handle.workdir
          const processes = this.#processesOf(incarnation)
          return await work({ handle, directory, incarnation, signal: both, processes })
        } catch (error) {
          if (signal?.aborted) throw error
          // Work that the end of the sandbox has aborted may have begun.
          const ended = !hasEnded(error) && hold.signal.aborted ? afterStart(hold.signal.reason) : error
          if (!hasEnded(ended)) throw ended
          await this.#drop(held)
          if (attempt > 1 || !mayRepeat(ended, repeatable)) throw ended
        }
      }
    } finally {
      this.#calls -= 1
      if (this.#calls === 0) this.#idle = setTimeout(() => void this.#release(), this.#options.holdMs).unref()
    }
  }

  async state({ refresh = false, signal }: StateOptions = {}): Promise<SandboxState> {
    const record = await this.#record(signal)
    if (!refresh) return stateOf(record)
    const held = await this.#held?.catch(() => undefined)
    if (!held) {
      const asked = await this.#sandboxes.list({ refresh: true, provider: record.provider, signal })
      return stateOf(asked.find(({ id }) => id === record.id) ?? { ...record, status: 'destroyed' })
    }
    try {
      return { ...stateOf(record), status: await held.handle.status({ signal }) }
    } catch (error) {
      if (!SandboxError.is(error)) throw error
      return { ...stateOf(record), status: 'unknown', problem: error.message }
    }
  }

  async snapshot({ name: snapshotName, signal }: { name?: string; signal?: AbortSignal } = {}) {
    const { name } = await this.#record(signal)
    // A hold of our own would refuse a snapshot that ends programs. Holds of other calls still do.
    if (this.#calls === 0) await this.#release()
    const { threadId } = this.#options
    return this.#sandboxes.snapshot(name, { snapshotName, threadId, signal })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle)
    await this.#release()
  }

  #hold(onProgress: UseOptions['onProgress']): Promise<Hold> {
    if (this.#held) return this.#held
    const held = this.#holdAgain(onProgress)
    this.#held = held
    held.then(
      ({ signal }) => signal.addEventListener('abort', () => void this.#drop(held)),
      () => void this.#drop(held),
    )
    return held
  }

  async #holdAgain(onProgress: UseOptions['onProgress']): Promise<Hold> {
    const { id, threadId, purpose } = this.#options
    const { name } = await this.#record(undefined)
    const hold = await this.#sandboxes.hold(name, {
      threadId,
      purpose,
      onProgress: ({ message }) => onProgress?.(message),
    })
    if (id !== undefined && hold.record.id !== id) {
      await hold.release()
      throw new SandboxError('conflict', `“${name}” was renamed in this moment.`, { hint: 'Try again.' })
    }
    return hold
  }

  #processesOf({ count, sandboxId }: Incarnation): Map<string, StartedProcess> {
    const incarnation = `${count} ${sandboxId}`
    if (this.#processes.incarnation !== incarnation) this.#processes = { incarnation, byId: new Map() }
    return this.#processes.byId
  }

  async #drop(held: Promise<Hold>): Promise<void> {
    if (this.#held === held) this.#held = undefined
    await held.then(
      (hold) => hold.release(),
      () => {},
    )
  }

  async #release(): Promise<void> {
    if (this.#held) await this.#drop(this.#held)
  }

  /** The record, also after a rename. */
  async #record(signal: AbortSignal | undefined): Promise<SandboxRecord> {
    const { name, id } = this.#options
    if (id === undefined) return this.#sandboxes.get(name, { signal })
    const named = await this.#sandboxes.get(name, { signal }).catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    })
    if (named?.id === id) return named
    const record = (await this.#sandboxes.list({ signal })).find((one) => one.id === id)
    if (record) return record
    throw new SandboxError('not_found', `The sandbox “${name}” was destroyed.`, {
      hint: 'Create it again, and make a new token: sandkasten mcp token NAME.',
    })
  }
}

function incarnationOf({ incarnation: count, handle, record: { snapshotAt } }: Hold): Incarnation {
  const { sandboxId } = handle
  return { count, sandboxId, ...(snapshotAt && { snapshotAt: snapshotAt.toISOString() }) }
}

function stateOf(record: SandboxRecord): SandboxState {
  return {
    name: record.name,
    provider: record.provider,
    status: record.status satisfies SandboxStatus,
    directory: record.directory,
    expiresAt: record.expiresAt?.toISOString(),
    snapshotAt: record.snapshotAt?.toISOString(),
    problem: record.errorMessage,
  }
}

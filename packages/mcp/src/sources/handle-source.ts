import { SandboxError, type SandboxHandle, supports } from '@sandkasten/sdk'
import { hasEnded, mayRepeat } from './ended.ts'
import type {
  OpenSandbox,
  SandboxSource,
  SandboxState,
  StartedProcess,
  StateOptions,
  UseOptions,
} from './source.ts'

export interface HandleSourceOptions {
  /** Returns the sandbox after it has ended. Default: starts it, if the provider can. */
  readonly reopen?: () => Promise<SandboxHandle>
  /** Commands run here. Default: the handle’s `workdir`. */
  readonly directory?: string
}

/** Tools for a sandbox that the caller has opened. The caller destroys it. */
export function handleSource(handle: SandboxHandle, options: HandleSourceOptions = {}): SandboxSource {
  return new HandleSource(handle, options)
}

interface Opened {
  readonly handle: SandboxHandle
  readonly count: number
  readonly processes: Map<string, StartedProcess>
}

/** Calls may interleave: those that find the sandbox ended share one reopening. */
class HandleSource implements SandboxSource {
  readonly #options: HandleSourceOptions
  #opened: Promise<Opened>

  constructor(handle: SandboxHandle, options: HandleSourceOptions) {
    this.#options = options
    this.#opened = Promise.resolve({ handle, count: 1, processes: new Map() })
  }

  async use<T>(
    work: (sandbox: OpenSandbox) => Promise<T>,
    { signal = never, repeatable = false, onProgress, onOpen }: UseOptions = {},
  ): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const current = this.#opened
      const { handle, count, processes } = await current
      const incarnation = { count, sandboxId: handle.sandboxId }
      onOpen?.(incarnation)
      try {
        const directory = this.#options.directory ?? handle.workdir
        return await work({ handle, directory, incarnation, signal, processes })
      } catch (error) {
        if (!hasEnded(error) || attempt > 1 || !mayRepeat(error, repeatable)) throw error
        onProgress?.('the sandbox has ended; starting it again')
        if (this.#opened === current) this.#reopen(handle, count, error)
        await this.#opened
      }
    }
  }

  async state({ signal }: StateOptions = {}): Promise<SandboxState> {
    const { handle } = await this.#opened
    const known = { name: handle.name ?? handle.id, provider: handle.provider }
    try {
      const { status, expiresAt } = await handle.info({ signal })
      return { ...known, status, expiresAt: expiresAt?.toISOString(), directory: handle.workdir }
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return { ...known, status: 'destroyed' }
      if (SandboxError.is(error)) return { ...known, status: 'unknown', problem: error.message }
      throw error
    }
  }

  snapshot({ name, signal }: { name?: string; signal?: AbortSignal } = {}): Promise<{ snapshotId: string }> {
    return this.use(({ handle }) => handle.snapshot({ name, signal }), { signal })
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #reopen(handle: SandboxHandle, count: number, error: SandboxError): void {
    const before = this.#opened
    this.#opened = this.#openAgain(handle, error).then(
      (next) => ({ handle: next, count: count + 1, processes: new Map() }),
      (reason: unknown) => {
        this.#opened = before
        throw reason
      },
    )
    // Every caller awaits it, too.
    this.#opened.catch(() => {})
  }

  async #openAgain(handle: SandboxHandle, error: SandboxError): Promise<SandboxHandle> {
    if (this.#options.reopen) return this.#options.reopen()
    if (!SandboxError.is(error, 'not_running', 'interrupted') || !supports(handle, 'stop')) throw error
    await handle.start()
    return handle
  }
}

const never = new AbortController().signal

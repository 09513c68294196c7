import { SandboxError } from '../errors.ts'
import type { CreateSandboxOpts, SandboxCore, SandboxProviderCore, SandboxSnapshots } from '../spec/index.ts'
import type { Opening } from './executor.ts'
import { canKeepAlive, type ExecutorKeepAliveOptions, KeptAlive } from './kept-alive.ts'

/** The part of a provider that an executor calls. */
export type ExecutorProvider = Pick<
  SandboxProviderCore<never>,
  'name' | 'createOptions' | 'list' | 'destroy'
> & {
  getOrCreate(options: CreateSandboxOpts & { name: string; onResume?: () => void }): Promise<SandboxCore>
  deleteSnapshot?(snapshotId: string): Promise<boolean>
}

export interface ConversationOptions {
  provider: ExecutorProvider
  name: string
  /** Other executors and processes may use a sandbox of this name too. */
  shared: boolean
  create?: Omit<CreateSandboxOpts, 'name' | 'signal'> | undefined
  keepAlive?: boolean | ExecutorKeepAliveOptions | undefined
  onOpen?: ((opening: Opening) => void) | undefined
}

interface Opened {
  readonly sandbox: SandboxCore
  readonly opening: Opening
  readonly kept: KeptAlive | undefined
}

/**
 * The sandbox of one conversation: opened on first use, and opened again after it has ended.
 *
 * All calls may interleave. Concurrent calls share one opening: a call opens the sandbox again only if `#opened` is
 * still the one that it has used. `#cleanups` stops calls from before a cleanup from opening a sandbox after it.
 */
export class Conversation {
  readonly #options: ConversationOptions
  #opened: Promise<Opened> | undefined
  #cleanups = 0
  /** The last sandbox, until cleanup. */
  #previousId: string | undefined
  #snapshotId: string | undefined
  lastOpening: Opening | undefined

  constructor(options: ConversationOptions) {
    this.#options = options
  }

  async sandbox(): Promise<SandboxCore> {
    const opened = await this.#current()
    return during(opened, async (sandbox) => sandbox)
  }

  /** Runs `work`. If the sandbox had ended before the work began, opens it again and repeats the work. */
  async use<T>(work: (sandbox: SandboxCore) => Promise<T>): Promise<{ value: T; reopened?: Opening }> {
    const cleanups = this.#cleanups
    const opens = this.#opened === undefined
    const current = this.#current()
    const opened = await current
    try {
      const value = await during(opened, work)
      return opens && opened.opening.reason !== undefined ? { value, reopened: opened.opening } : { value }
    } catch (error) {
      if (!SandboxError.is(error, 'not_running', 'interrupted', 'not_found')) throw error
      if (error.details.started) throw stoppedMeanwhile(error)
      if (this.#cleanups !== cleanups) throw error
      if (this.#opened === current) this.#opened = this.#again(opened, error)
      const next = await this.#current()
      return { value: await during(next, work), reopened: next.opening }
    }
  }

  /** Saves the disk. The sandbox starts from the last snapshot if it is gone. */
  async snapshot(): Promise<string> {
    const cleanups = this.#cleanups
    const { value } = await this.use((sandbox) => (sandbox as SandboxCore & SandboxSnapshots).snapshot())
    await this.#remember(value.snapshotId, cleanups)
    return value.snapshotId
  }

  async cleanup(): Promise<void> {
    this.#cleanups += 1
    const [opening, previousId, snapshotId] = [this.#opened, this.#previousId, this.#snapshotId]
    this.#opened = this.#previousId = this.#snapshotId = this.lastOpening = undefined
    const { provider, name, shared } = this.#options
    const opened = await opening?.catch(() => undefined)
    await opened?.kept?.stop()
    await opened?.sandbox.destroy()
    // Another executor or process may have opened a sandbox for this conversation.
    if (shared || (!opened && previousId !== undefined))
      for (const { sandboxId } of await provider.list({ name })) await provider.destroy(sandboxId)
    if (snapshotId !== undefined) await provider.deleteSnapshot?.(snapshotId)
  }

  #current(): Promise<Opened> {
    // Stored as a promise, so that concurrent calls share it; removed on failure.
    this.#opened ??= this.#removedOnFailure(this.#open(undefined))
    return this.#opened
  }

  #again(ended: Opened, error: SandboxError): Promise<Opened> {
    return this.#removedOnFailure(
      (async () => {
        await ended.kept?.stop()
        return this.#open(error)
      })(),
    )
  }

  #removedOnFailure(opening: Promise<Opened>): Promise<Opened> {
    const opened: Promise<Opened> = opening.catch((error) => {
      if (this.#opened === opened) this.#opened = undefined
      throw error
    })
    return opened
  }

  async #open(reason: SandboxError | undefined): Promise<Opened> {
    const cleanups = this.#cleanups
    const { provider, name, create } = this.#options
    const snapshotId = provider.createOptions.has('snapshotId') ? this.#snapshotId : undefined
    let existed = false
    const onResume = () => {
      existed = true
    }
    const open = (from: object = {}) => provider.getOrCreate({ ...create, ...from, name, onResume })
    let restored = snapshotId
    // The snapshot contains what these options would choose.
    const restore = { snapshotId, image: undefined, runtime: undefined, repo: undefined, gitToken: undefined }
    const sandbox = await (snapshotId === undefined
      ? open()
      : open(restore).catch((error) => {
          if (!SandboxError.is(error, 'not_found')) throw error
          restored = undefined
          return open()
        }))
    const kept = this.#keptAlive(sandbox)
    const opening = this.#told(sandbox, reason, existed ? undefined : restored, existed)
    if (cleanups === this.#cleanups) {
      this.#previousId = sandbox.sandboxId
      this.lastOpening = opening
      this.#options.onOpen?.(opening)
    }
    return { sandbox, opening, kept }
  }

  #told(
    { sandboxId }: SandboxCore,
    reason: SandboxError | undefined,
    snapshotId: string | undefined,
    existed: boolean,
  ): Opening {
    const previousId = this.#previousId
    // An earlier attempt to open the sandbox again has failed.
    const again = reason === undefined && previousId !== undefined ? 'not_running' : reason?.code
    const because = again === undefined ? {} : { reason: again }
    if (previousId === undefined) return { sandboxId, files: existed ? 'kept' : 'new', ...because }
    if (previousId === sandboxId) return { sandboxId, files: 'kept', ...because }
    if (snapshotId === undefined) return { sandboxId, files: 'lost', ...because }
    return { sandboxId, files: 'restored', snapshotId, ...because }
  }

  #keptAlive(sandbox: SandboxCore): KeptAlive | undefined {
    const { keepAlive = true } = this.#options
    const options = keepAlive === true ? {} : keepAlive
    if (options === false || !canKeepAlive(sandbox)) return undefined
    const cleanups = this.#cleanups
    const onSnapshot = (snapshotId: string) =>
      void this.#remember(snapshotId, cleanups).catch((error) =>
        options.onError?.(error, { during: 'snapshot', failures: 1, retryInMs: 0 }),
      )
    return new KeptAlive(sandbox, options, onSnapshot)
  }

  /** Keeps one snapshot and deletes the one before. After a cleanup it keeps none. */
  async #remember(snapshotId: string, cleanups: number): Promise<void> {
    const isLate = cleanups !== this.#cleanups
    const old = isLate ? snapshotId : this.#snapshotId
    if (!isLate) this.#snapshotId = snapshotId
    if (old !== undefined) await this.#options.provider.deleteSnapshot?.(old)
  }
}

function during<T>({ kept, sandbox }: Opened, work: (sandbox: SandboxCore) => Promise<T>): Promise<T> {
  return kept ? kept.during(() => work(sandbox)) : work(sandbox)
}

function stoppedMeanwhile(error: SandboxError): SandboxError {
  return new SandboxError(error.code, `The sandbox stopped while the command ran. ${error.message}`, {
    hint: 'The command may have done part of its work. The next call opens the sandbox again.',
    details: error.details,
    cause: error,
    provider: error.provider,
    sandboxId: error.sandboxId,
    requestId: error.requestId,
  })
}

import { SandboxError } from '../../errors.ts'
import type { VendorInfo, VendorSandbox } from './sdk.ts'
import type { E2BTerminal } from './terminal.ts'
import { notFound } from './translation.ts'

/**
 * One start of a sandbox, shared by all handles of one provider. The vendor does not number starts. This provider records
 * its own starts here. It detects others by requesting the state: at most every `lookEveryMs` before file operations, and
 * whenever a call fails.
 */
export class Incarnation {
  readonly sandboxId: string
  readonly sandbox: VendorSandbox
  readonly workdir: string
  readonly terminals = new Map<string, Promise<E2BTerminal>>()
  /** This provider stopped it, or found that it was restarted. */
  over = false
  /** What the agent in the sandbox calls this start; `-` until it is known. */
  start = '-'
  hasAgent = false
  #startedAt: number | undefined
  #lookedAt = 0
  #paused: { resumed: Promise<void>; resume: () => void } | undefined

  constructor(sandbox: VendorSandbox, workdir: string) {
    this.sandboxId = sandbox.sandboxId
    this.sandbox = sandbox
    this.workdir = workdir
  }

  /** Throws unless the sandbox runs and is still this incarnation. */
  async check(look: () => Promise<VendorInfo>, how: { now?: boolean } = {}): Promise<void> {
    if (!this.over && !how.now && Date.now() - this.#lookedAt < lookEveryMs) return
    const info = await look()
    this.#lookedAt = Date.now()
    if (info.state !== 'running') throw notRunning(this.sandboxId, info.state)
    const startedAt = info.startedAt.getTime()
    this.#startedAt ??= startedAt
    if (startedAt !== this.#startedAt) this.over = true
    if (this.over) throw interrupted(this.sandboxId)
  }

  get paused(): boolean {
    return this.#paused !== undefined
  }

  pause(): void {
    if (this.#paused) return
    let resume = () => {}
    const resumed = new Promise<void>((resolve) => {
      resume = resolve
    })
    this.#paused = { resumed, resume }
  }

  /** The vendor may count a resume as a start; for us the incarnation continues. */
  resume(): void {
    this.#startedAt = undefined
    this.#lookedAt = 0
    this.#paused?.resume()
    this.#paused = undefined
  }

  /**
   * For a snapshot or a fork: the vendor pauses the sandbox meanwhile, which breaks the streams of its programs.
   * They go on afterwards, as after `resume`.
   */
  async across<T>(save: () => Promise<T>): Promise<T> {
    if (this.#paused) return save()
    this.pause()
    try {
      return await save()
    } finally {
      this.resume()
    }
  }

  async resumed(): Promise<void> {
    await this.#paused?.resumed
  }

  end(): void {
    this.over = true
    this.#paused?.resume()
    this.#paused = undefined
  }
}

const lookEveryMs = 2_000

/** The known incarnations of a provider, and whether it stopped or paused them. */
export class Incarnations {
  readonly #current = new Map<string, Incarnation>()
  readonly rest = new Map<string, 'paused' | 'stopped'>()

  current(sandboxId: string): Incarnation | undefined {
    return this.#current.get(sandboxId)
  }

  begin(incarnation: Incarnation): Incarnation {
    this.#current.get(incarnation.sandboxId)?.end()
    this.#current.set(incarnation.sandboxId, incarnation)
    this.rest.delete(incarnation.sandboxId)
    return incarnation
  }

  stopped(incarnation: Incarnation): void {
    incarnation.end()
    this.rest.set(incarnation.sandboxId, 'stopped')
  }

  forget(sandboxId: string): void {
    this.#current.get(sandboxId)?.end()
    this.#current.delete(sandboxId)
    this.rest.delete(sandboxId)
  }
}

export function notRunning(sandboxId: string, state: string): SandboxError {
  if (state === 'destroyed') return notFound(sandboxId)
  return new SandboxError('not_running', `The sandbox ${sandboxId} is ${state}.`, {
    provider: 'e2b',
    sandboxId,
  })
}

function interrupted(sandboxId: string): SandboxError {
  return new SandboxError('interrupted', `The sandbox ${sandboxId} was restarted.`, {
    provider: 'e2b',
    sandboxId,
  })
}

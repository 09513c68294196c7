import {
  type KeepAlive,
  type KeepAliveEnd,
  keepAlive,
  SandboxError,
  type SandboxHandle,
  supports,
} from '@sandkasten/sdk'
import type { Sandboxes, SandboxRow } from '../store/index.ts'
import type { NamedSandbox } from '../types.ts'
import { dueAt } from './due.ts'

export interface HeldOptions {
  /** How often the rows of held sandboxes are read. Default 2 seconds. */
  readonly lookMs?: number
  /** How often providers without `lifetime` and `activity` are asked. Default 30 seconds. */
  readonly askMs?: number
  /** How often the use is written to the row. Default 1 minute. */
  readonly noteMs?: number
}

/** One running sandbox that this process holds at least once. */
interface Held {
  readonly id: string
  readonly name: string
  readonly incarnation: number
  readonly listeners: Set<(reason: SandboxError) => void>
  readonly stop: () => void
  notedAt: number
  /** The end that the provider reported last; null: it has none. */
  expiresAt: number | null | undefined
}

/**
 * Keeps the sandboxes alive that this process holds, and notices their end: in the row, which another process changed,
 * or at the provider. Holds of one incarnation share one heartbeat.
 */
export class HeldSandboxes {
  readonly #sandboxes: Sandboxes
  readonly #now: () => number
  readonly #options: Required<HeldOptions>
  readonly #held = new Map<string, Held>()
  #looking: NodeJS.Timeout | undefined

  constructor(sandboxes: Sandboxes, now: () => number, options: HeldOptions = {}) {
    this.#sandboxes = sandboxes
    this.#now = now
    this.#options = { lookMs: 2_000, askMs: 30_000, noteMs: 60_000, ...options }
  }

  /** Calls `onEnd` at most once, when the sandbox ended or was replaced. Returns the function that ends the watch. */
  watch(
    { record, handle, incarnation }: NamedSandbox,
    onEnd: (reason: SandboxError) => void,
  ): () => Promise<void> {
    const key = `${record.id} ${incarnation}`
    const held = this.#held.get(key) ?? this.#hold(key, record.id, record.name, incarnation, handle)
    const listener = (reason: SandboxError) => onEnd(reason)
    held.listeners.add(listener)
    return async () => {
      if (!held.listeners.delete(listener) || held.listeners.size > 0) return
      this.#drop(key, held)
      await this.#note(held)
    }
  }

  close(): void {
    for (const [key, held] of this.#held) this.#drop(key, held)
  }

  #hold(key: string, id: string, name: string, incarnation: number, handle: SandboxHandle): Held {
    const end = (reason: SandboxError | undefined) => {
      if (reason) this.#end(key, reason)
    }
    const keeper = this.#keep(handle, (expiresAt) => {
      held.expiresAt = expiresAt
    })
    const held: Held = {
      id,
      name,
      incarnation,
      listeners: new Set(),
      stop: () => void keeper.stop(),
      notedAt: this.#now(),
      expiresAt: undefined,
    }
    void keeper.ended.then((reason) => end(reason && endOf(reason, name)))
    this.#held.set(key, held)
    this.#looking ??= setInterval(() => void this.#look(), this.#options.lookMs).unref()
    return held
  }

  #keep(handle: SandboxHandle, onEnds: (expiresAt: number | null) => void): Keeper {
    if (!supports(handle, 'lifetime') && !supports(handle, 'activity'))
      return askOnly(handle, this.#options.askMs)
    const keeper: KeepAlive = keepAlive(handle, {
      onBeat: ({ expiresAt }) => onEnds(expiresAt?.getTime() ?? null),
    })
    return { ended: keeper.ended.then(({ reason }) => reason), stop: () => keeper.stop() }
  }

  #drop(key: string, held: Held): void {
    held.stop()
    if (this.#held.get(key) === held) this.#held.delete(key)
    if (this.#held.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
  }

  #end(key: string, reason: SandboxError): void {
    const held = this.#held.get(key)
    if (!held) return
    this.#drop(key, held)
    for (const listener of held.listeners) listener(reason)
    held.listeners.clear()
  }

  async #look(): Promise<void> {
    const held = [...this.#held]
    if (held.length === 0) return
    try {
      const rows = new Map(
        (await this.#sandboxes.byIds(held.map(([, { id }]) => id))).map((row) => [row.id, row]),
      )
      for (const [key, each] of held) {
        const row = rows.get(each.id)
        const reason = endInRow(row, each)
        if (reason) this.#end(key, reason)
        else if (Math.abs(this.#now() - each.notedAt) >= this.#options.noteMs) await this.#note(each, row)
      }
    } catch {
      // The database may be away for a moment; the next look tries again.
    }
  }

  /** Without `row`, the use just ended: the due time that the row has is early enough. */
  async #note(held: Held, row?: SandboxRow): Promise<void> {
    const now = this.#now()
    held.notedAt = now
    const seen = {
      last_used_at: now,
      ...(held.expiresAt !== undefined && { last_checked_at: now, expires_at: held.expiresAt }),
    }
    await this.#sandboxes
      .noteSeen(
        { ...held, status: 'running' },
        { ...seen, ...(row && { due_at: dueAt({ ...row, ...seen }) }) },
      )
      .catch(() => {})
  }
}

interface Keeper {
  readonly ended: Promise<KeepAliveEnd['reason'] | undefined>
  stop(): unknown
}

/** For providers whose sandboxes do not end by themselves, but may be stopped or destroyed by others. */
function askOnly(handle: SandboxHandle, everyMs: number): Keeper {
  const over = new AbortController()
  const ended = new Promise<KeepAliveEnd['reason'] | undefined>((resolve) => {
    over.signal.addEventListener('abort', () => resolve(undefined))
    const ask = async () => {
      const reason = await reasonOf(handle, AbortSignal.any([over.signal, AbortSignal.timeout(everyMs)]))
      if (reason) resolve(reason)
      else if (!over.signal.aborted) timer = setTimeout(ask, everyMs).unref()
    }
    let timer = setTimeout(ask, everyMs).unref()
    over.signal.addEventListener('abort', () => clearTimeout(timer))
  })
  return { ended, stop: () => over.abort() }
}

async function reasonOf(
  handle: SandboxHandle,
  signal: AbortSignal,
): Promise<KeepAliveEnd['reason'] | undefined> {
  try {
    const status = await handle.status({ signal })
    if (status === 'stopped' || status === 'archived') return 'stopped'
    return status === 'failed' || status === 'destroyed' ? status : undefined
  } catch (error) {
    if (SandboxError.is(error, 'not_found')) return 'destroyed'
    if (SandboxError.is(error, 'not_running')) return 'stopped'
    return SandboxError.is(error, 'interrupted') ? 'interrupted' : undefined
  }
}

function endInRow(row: SandboxRow | undefined, { incarnation, name }: Held): SandboxError | undefined {
  if (row?.live !== 1) return endOf('destroyed', name)
  if (row.incarnation !== incarnation) return endOf('interrupted', name)
  if (row.status === 'stopped' || row.status === 'archived') return endOf('stopped', name)
  return row.status === 'failed' ? endOf('failed', name) : undefined
}

function endOf(reason: KeepAliveEnd['reason'], name: string): SandboxError | undefined {
  if (reason === 'destroyed') return new SandboxError('not_found', `“${name}” was destroyed.`)
  if (reason === 'interrupted')
    return new SandboxError('interrupted', `“${name}” was replaced or restarted.`, {
      hint: 'Resume it to get its new incarnation.',
    })
  if (reason === 'stopped' || reason === 'failed')
    return new SandboxError('not_running', `“${name}” ${reason === 'stopped' ? 'was stopped' : 'failed'}.`, {
      hint: 'Resume it to go on.',
    })
  return undefined
}

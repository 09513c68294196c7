import type { SandboxShell } from '@sandkasten/sdk'
import type { Sandbox } from './context.ts'

/**
 * The state of sessions in this process: open handles, holds, locks and last use. The process can lose all of it. An
 * entry is removed when it is empty.
 *
 * `hold` and `locked` may interleave freely. Work holds the session; a change of state takes the lock. Work waits for
 * `settled` before it reads the state. A change checks `holds` after it got the lock. So a state never changes under
 * work that has read it.
 */
export class LiveSessions {
  readonly #entries = new Map<string, Entry>()

  /** Marks the session as in use until the returned function is called. */
  hold(id: string): () => void {
    const entry = this.#entry(id)
    entry.holds += 1
    let held = true
    return () => {
      if (!held) return
      held = false
      entry.holds -= 1
      this.#tidy(id, entry)
    }
  }

  holds(id: string): number {
    return this.#entries.get(id)?.holds ?? 0
  }

  /** Runs `work` alone among all calls with this id. */
  async locked<T>(id: string, work: () => Promise<T>): Promise<T> {
    const entry = this.#entry(id)
    const before = entry.turn
    const { promise, resolve } = Promise.withResolvers<void>()
    entry.turn = promise
    entry.waiting += 1
    await before
    try {
      return await work()
    } finally {
      entry.waiting -= 1
      resolve()
      this.#tidy(id, entry)
    }
  }

  busy(id: string): boolean {
    return (this.#entries.get(id)?.waiting ?? 0) > 0
  }

  /** Resolves when pending changes of state are done. Undefined when there are no changes. */
  settled(id: string): Promise<void> | undefined {
    const entry = this.#entries.get(id)
    return entry && entry.waiting > 0 ? entry.turn : undefined
  }

  opened(id: string, incarnation: number): Open | undefined {
    const open = this.#entries.get(id)?.open
    return open?.incarnation === incarnation ? open : undefined
  }

  open(id: string, incarnation: number, sandbox: Sandbox): Open {
    const open: Open = { incarnation, sandbox, shells: new Map(), terminals: new Set() }
    this.#entry(id).open = open
    return open
  }

  drop(id: string): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.open = undefined
    entry.cwd = undefined
    this.#tidy(id, entry)
  }

  /** Records activity. It is written to the store later, in a batch. */
  touch(id: string, cwd?: string): void {
    const entry = this.#entry(id)
    entry.touchedAt = Date.now()
    if (cwd !== undefined) entry.cwd = cwd
  }

  touched(id: string): { at: number; cwd?: string } | undefined {
    const entry = this.#entries.get(id)
    return entry?.touchedAt === undefined ? undefined : { at: entry.touchedAt, cwd: entry.cwd }
  }

  /** Moves the recorded times after a jump of the clock. */
  shift(ms: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.touchedAt === undefined) continue
      const isWritten = entry.touchedAt === entry.writtenAt
      entry.touchedAt += ms
      if (isWritten) entry.writtenAt = entry.touchedAt
    }
  }

  /** The sessions that were used since the last call. */
  takeTouched(): Array<{ id: string; at: number; cwd?: string }> {
    const all: Array<{ id: string; at: number; cwd?: string }> = []
    for (const [id, entry] of this.#entries) {
      if (entry.touchedAt === undefined || entry.touchedAt === entry.writtenAt) continue
      entry.writtenAt = entry.touchedAt
      all.push({ id, at: entry.touchedAt, cwd: entry.cwd })
      this.#tidy(id, entry)
    }
    return all
  }

  #entry(id: string): Entry {
    let entry = this.#entries.get(id)
    if (!entry) {
      entry = { holds: 0, waiting: 0, turn: Promise.resolve() }
      this.#entries.set(id, entry)
    }
    return entry
  }

  #tidy(id: string, entry: Entry): void {
    if (entry.holds > 0 || entry.waiting > 0 || entry.open || entry.touchedAt !== entry.writtenAt) return
    if (this.#entries.get(id) === entry) this.#entries.delete(id)
  }
}

export interface Open {
  readonly incarnation: number
  readonly sandbox: Sandbox
  readonly shells: Map<string, Promise<SandboxShell>>
  /** Terminals that this process has opened. */
  readonly terminals: Set<string>
}

interface Entry {
  holds: number
  waiting: number
  turn: Promise<void>
  open?: Open
  touchedAt?: number
  writtenAt?: number
  cwd?: string
}

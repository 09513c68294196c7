import { SandboxError } from '@sandkasten/sdk'
import type { SandboxChanges, Sandboxes } from '../store/sandboxes.ts'
import type { Operation, SandboxRow } from '../store/tables.ts'

/** The right to change one sandbox. Every write names its token, so a holder that lost it changes nothing. */
export interface Lease {
  readonly row: SandboxRow
  /** Aborts when the lease was lost or the caller's signal fired. */
  readonly signal: AbortSignal
  /** The operation of a dead holder that was recovered under this lease. */
  readonly recovered?: Operation
  /** Throws `interrupted` if the lease was lost. Returns the row and makes it `row`. */
  update(changes: SandboxChanges, options?: { operation?: Operation }): Promise<SandboxRow>
  /** Makes the row a tombstone and frees the name. Returns the threads that were attached. Nothing may follow. */
  tombstone(changes?: Pick<SandboxChanges, 'error_message' | 'snapshot_id'>): Promise<string[]>
}

/** A lease while its holder works. */
export class HeldLease implements Lease {
  readonly token: number
  recovered?: Operation
  readonly #sandboxes: Sandboxes
  readonly #lost: AbortController
  #row: SandboxRow
  #ended = false
  /** The operation's own choice of the next time, to try again. */
  #due: number | null = null
  /** The last write failed. */
  #unwritten = false
  /** The operation of an earlier holder could not be recovered. */
  #unrecovered = false

  constructor(sandboxes: Sandboxes, row: SandboxRow, lost: AbortController) {
    this.token = row.lease_token
    this.#sandboxes = sandboxes
    this.#row = row
    this.#lost = lost
  }

  get row(): SandboxRow {
    return this.#row
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** When the operation wants to be tried again. */
  get due(): number | null {
    return this.#due
  }

  /** Whether there is a lease to release: it was not lost, and the row is not a tombstone. */
  get needsRelease(): boolean {
    return !this.#ended
  }

  /** Whether the row may not say what is true, so the next holder has to recover the operation. */
  get isUnfinished(): boolean {
    return this.#unwritten || this.#unrecovered
  }

  async update(changes: SandboxChanges, options: { operation?: Operation } = {}): Promise<SandboxRow> {
    const row = await this.#write(() => this.#sandboxes.update(this.row.id, this.token, changes, options))
    if (changes.due_at !== undefined) this.#due = changes.due_at
    this.#row = row
    return row
  }

  async tombstone(changes: Pick<SandboxChanges, 'error_message' | 'snapshot_id'> = {}): Promise<string[]> {
    const { row, threads } = await this.#write(() =>
      this.#sandboxes.tombstone(this.row.id, this.token, changes),
    )
    this.#row = row
    this.#ended = true
    return threads
  }

  leaveUnrecovered(): void {
    this.#unrecovered = true
  }

  /** Another process took over. */
  lose(): void {
    this.#ended = true
    this.#abort()
  }

  /** Another process may have taken over, because this one could not renew the lease. Its writes show which is true. */
  doubt(): void {
    this.#unwritten = true
    this.#abort()
  }

  #abort(): void {
    if (!this.#lost.signal.aborted) this.#lost.abort(lostLease(this.row.name))
  }

  async #write<T>(write: () => Promise<T | undefined>): Promise<T> {
    if (this.#ended) throw lostLease(this.row.name)
    let written: T | undefined
    try {
      written = await write()
    } catch (error) {
      // A value that may not be stored says nothing about the row.
      if (!SandboxError.is(error, 'invalid_argument')) this.#unwritten = true
      throw error
    }
    this.#unwritten = false
    if (written !== undefined) return written
    this.lose()
    throw lostLease(this.row.name)
  }
}

function lostLease(name: string): SandboxError {
  return new SandboxError('interrupted', `Another process took over “${name}”.`, {
    hint: 'Nothing was lost: look at its status and repeat the call.',
  })
}

import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../keys/index.ts'
import type { Log } from '../log.ts'

type Action = { action: string; target?: string | null; status: number }
type AuditEntry = ReturnType<typeof entryOf>

const flushMs = 100
const maxWaiting = 50_000

/** The audit log. Entries are written in batches after the response, and kept in memory while the database is away. */
export class Audit {
  readonly #write: (rows: readonly AuditEntry[]) => Promise<void>
  readonly #log: Log
  #waiting: AuditEntry[] = []
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(write: (rows: readonly AuditEntry[]) => Promise<void>, log: Log) {
    this.#write = write
    this.#log = log
  }

  add(caller: Caller, entry: Action): void {
    if (this.#waiting.length >= maxWaiting) this.#waiting.shift()
    this.#waiting.push(entryOf(caller, entry))
    this.#timer ??= setTimeout(() => void this.flush(), flushMs)
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing = this.#writing.then(() => this.#flush())
    await this.#writing
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const rows = this.#waiting.slice(0, 500)
      try {
        await this.#write(rows)
        this.#waiting = this.#waiting.slice(rows.length)
      } catch (error) {
        if (!SandboxError.is(error, 'unavailable', 'disk_full'))
          this.#waiting = this.#waiting.slice(rows.length)
        this.#log.warn(
          { err: error, waiting: this.#waiting.length },
          'cannot write the audit log; it will be retried',
        )
        return
      }
    }
  }
}

function entryOf(caller: Caller, { action, target = null, status }: Action) {
  return {
    project_id: caller.projectId,
    key_id: caller.keyId,
    subject: caller.subject ?? null,
    action,
    target,
    status,
    request_id: caller.requestId,
    created_at: Date.now(),
  }
}

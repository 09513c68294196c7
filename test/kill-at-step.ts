import { writeSync } from 'node:fs'
import { DatabaseSync, StatementSync } from 'node:sqlite'

/** Counts the steps of this process, and kills it before one of them. */
export class KillAtStep {
  readonly #killAt: number | undefined
  #steps = 0

  /** Undefined: only counts. */
  constructor(killAt: number | undefined) {
    this.#killAt = killAt
  }

  get steps(): number {
    return this.#steps
  }

  /** `what` is printed before the kill, at once, so that the kill does not lose it. */
  step(what: string): void {
    this.#steps += 1
    if (this.#steps !== this.#killAt) return
    writeSync(1, `killed before ${what}\n`)
    process.kill(process.pid, 'SIGKILL')
  }

  /** Counts calls of these methods. A call that the database refused because it is locked is no step: it is repeated. */
  methods<T extends object>(owner: T, names: ReadonlyArray<keyof T & string>): void {
    for (const name of names) {
      const original = owner[name] as (...args: unknown[]) => unknown
      const count = (what: string) => this.step(what)
      const uncount = () => {
        this.#steps -= 1
      }
      Object.defineProperty(owner, name, {
        value(this: unknown, ...args: unknown[]) {
          count(wordsOf(this, name, args))
          try {
            return Reflect.apply(original, this, args)
          } catch (error) {
            if (((error as { errcode?: number }).errcode ?? 0) % 256 === 5) uncount()
            throw error
          }
        },
      })
    }
  }

  database(): void {
    this.methods(DatabaseSync.prototype, ['exec'])
    this.methods(StatementSync.prototype, ['run', 'all'])
  }

  /** A `fetch` whose requests are two steps: before one is sent, and when its answer is here. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(String(input))
    const what = `${init?.method ?? 'GET'} ${pathname.replaceAll(/[0-9a-f-]{16,}/g, '…')}`
    this.step(`the request ${what}`)
    const response = await globalThis.fetch(input, init)
    this.step(`using the answer to ${what}`)
    return response
  }
}

/** `update "sandboxes"`, `begin immediate`: no values, which may be secret. */
function wordsOf(target: unknown, name: string, args: readonly unknown[]): string {
  const sql =
    target instanceof StatementSync ? target.sourceSQL : typeof args[0] === 'string' ? args[0] : name
  return sql.trim().split(/\s+/).slice(0, 3).join(' ')
}

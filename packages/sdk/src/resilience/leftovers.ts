import type { Clock } from '../shared/calls/clock.ts'
import type { CallOptions, SandboxProvider } from '../spec/index.ts'
import { within } from './time-limit.ts'

/** The label that finds leftovers of a failed create. Its value is new for each attempt. */
export const attemptLabel = 'sandkasten.attempt'

/** A possible leftover that could not be searched for so far. */
export interface Leftover {
  readonly provider: string
  /** Find it with `list({ labels: { 'sandkasten.attempt': attempt } })`. */
  readonly attempt: string
  readonly error?: unknown
}

/** Later searches: a provider that lost its response may still finish, and an unreachable one may recover. */
const laterMs = [5_000, 30_000, 120_000]
/** The time limit of one search, because the caller waits for it. */
const lookMs = 10_000

/**
 * By contract, a failed create leaves nothing. If the response was lost, the provider cannot know that, and an
 * unknown sandbox costs money. So every attempt has its own label. After such a failure the provider is searched for
 * that label: immediately, and a few times later. Only sandboxes with the label of a failed attempt are touched.
 */
export class Leftovers {
  readonly #clock: Clock
  readonly #onLeftover: ((leftover: Leftover) => void) | undefined
  readonly #open = new Map<string, Search>()

  constructor(clock: Clock, onLeftover?: (leftover: Leftover) => void) {
    this.#clock = clock
    this.#onLeftover = onLeftover
  }

  /**
   * Searches now and, if asked to, later. Returns what was found now, and whether the search was possible. Never
   * rejects.
   */
  async search(
    provider: SandboxProvider,
    attempt: string,
    { later }: { later: boolean },
  ): Promise<{ words: string; sure: boolean }> {
    const search: Search = { provider, attempt, looks: 0, cancel: () => {} }
    this.#open.set(attempt, search)
    const found = await this.#look(search, {})
    const sure = search.error === undefined
    if (later) this.#later(search)
    else {
      this.#open.delete(attempt)
      if (!sure) this.#tell(leftoverOf(search))
    }
    if (found.length > 0) return { words: `${found.join(', ')} was left and has been destroyed`, sure }
    return { words: sure ? 'nothing was left' : 'could not be searched for leftovers', sure }
  }

  /** Repeats all unfinished searches now. Returns those that failed again. */
  async sweep(call: CallOptions): Promise<Leftover[]> {
    await Promise.all([...this.#open.values()].map((search) => this.#look(search, call)))
    for (const { attempt, error, looks } of this.#open.values())
      if (error === undefined && looks > laterMs.length) this.#open.delete(attempt)
    return [...this.#open.values()].filter(({ error }) => error !== undefined).map(leftoverOf)
  }

  /** Makes a last search, then stops all activity. */
  async close(): Promise<void> {
    await this.sweep({})
    for (const search of this.#open.values()) search.cancel()
    this.#open.clear()
  }

  #later(search: Search): void {
    const wait = laterMs[search.looks]
    search.looks += 1
    if (wait === undefined) {
      // Kept for sweep() if the search never worked.
      if (search.error === undefined) this.#open.delete(search.attempt)
      else this.#tell(leftoverOf(search))
      return
    }
    search.cancel = this.#clock.after(wait, () => {
      if (!this.#open.has(search.attempt)) return
      void this.#look(search, {}).then(() => this.#later(search))
    })
  }

  async #look(search: Search, call: CallOptions): Promise<string[]> {
    const { provider, attempt } = search
    try {
      const limit = {
        ms: lookMs,
        clock: this.#clock,
        signal: call.signal,
        what: 'Searching for leftovers',
        provider: provider.name,
      }
      const destroyed = await within(limit, async (signal) => {
        const found = await provider.list({ labels: { [attemptLabel]: attempt }, signal })
        // A provider that does not filter must not cost other callers a sandbox.
        const ours = found.filter(({ labels }) => labels[attemptLabel] === attempt)
        for (const { id } of ours) await provider.destroy(id, { signal })
        return ours.map(({ id }) => id)
      })
      search.error = undefined
      return destroyed
    } catch (error) {
      search.error = error
      return []
    }
  }

  #tell(leftover: Leftover): void {
    try {
      this.#onLeftover?.(leftover)
    } catch {
      // Runs in the background: a listener that throws must not end the program, and no caller is left to report to.
    }
  }
}

interface Search {
  readonly provider: SandboxProvider
  readonly attempt: string
  looks: number
  error?: unknown
  cancel: () => void
}

function leftoverOf({ provider, attempt, error }: Search): Leftover {
  return { provider: provider.name, attempt, error }
}

import type { Clock } from '../shared/clock.ts'
import type { CallOptions, SandboxProvider } from '../spec/index.ts'
import { within } from './time-limit.ts'

/** The label by which what a failed create left is found. Its value is new for each attempt. */
export const attemptLabel = 'sandkasten.attempt'

/** What a create may have left, and could not be looked for so far. */
export interface Leftover {
  readonly provider: string
  /** Look for it with `list({ labels: { 'sandkasten.attempt': attempt } })`. */
  readonly attempt: string
  /** Why it could not be looked for, or not be destroyed. */
  readonly error?: unknown
}

/** Later looks: a provider that lost its answer may finish what it began, and one that is down comes back. */
const laterMs = [5_000, 30_000, 120_000]
/** One look must not hold up the caller for long. */
const lookMs = 10_000

/**
 * A create that failed should have left nothing; that is the contract. But where the answer was lost the provider cannot know, and
 * a sandbox that nobody knows of is billed. So every attempt has a label of its own, and after such a failure the provider is asked
 * for sandboxes with it: at once, and a few times later. Only sandboxes with the label of a failed attempt are ever touched.
 */
export class Leftovers {
  readonly #clock: Clock
  readonly #onLeftover: ((leftover: Leftover) => void) | undefined
  readonly #open = new Map<string, Search>()

  constructor(clock: Clock, onLeftover?: (leftover: Leftover) => void) {
    this.#clock = clock
    this.#onLeftover = onLeftover
  }

  /** Looks now and, if asked to, again later; says what was found now, and whether it could be asked at all. Never rejects. */
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
    return { words: sure ? 'nothing was left' : 'could not be asked what is left', sure }
  }

  /** All searches that are not done, now. What stays could not be looked for. */
  async sweep(call: CallOptions): Promise<Leftover[]> {
    await Promise.all([...this.#open.values()].map((search) => this.#look(search, call)))
    for (const { attempt, error, looks } of this.#open.values())
      if (error === undefined && looks > laterMs.length) this.#open.delete(attempt)
    return [...this.#open.values()].filter(({ error }) => error !== undefined).map(leftoverOf)
  }

  /** A last look; then nothing happens any more. */
  async close(): Promise<void> {
    await this.sweep({})
    for (const search of this.#open.values()) search.cancel()
    this.#open.clear()
  }

  #later(search: Search): void {
    const wait = laterMs[search.looks]
    search.looks += 1
    if (wait === undefined) {
      // Kept for sweep() if it never worked; done otherwise.
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
        what: 'Looking for what is left',
        provider: provider.name,
      }
      const destroyed = await within(limit, async (signal) => {
        const found = await provider.list({ labels: { [attemptLabel]: attempt }, signal })
        // A provider that does not filter must not cost anybody a sandbox.
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
      // This runs beside the program: a listener's own failure must not end it, and nobody is there to be told.
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

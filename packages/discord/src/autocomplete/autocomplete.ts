import type { SandboxRecord } from '@sandkasten/registry'
import { type Call, type Place, scopeOf } from '../commands/command.ts'
import { printable, shortened } from '../show/escape.ts'

export interface Suggestion {
  readonly name: string
  readonly value: string
}

/** What Discord accepts. */
const most = { choices: 25, characters: 100 } as const
/** Discord drops an answer after 3 seconds. */
const deadlineMs = 2000
/** Providers are asked at most this often for each channel. */
const refreshEveryMs = 30_000

/** Suggestions while a user types. They come from the store; providers are asked behind it. */
export class Autocomplete {
  readonly #place: Place
  readonly #onError: (error: unknown) => void
  readonly #refreshed = new Map<string, number>()

  constructor(place: Place, onError: (error: unknown) => void) {
    this.#place = place
    this.#onError = onError
  }

  /** Never fails and never takes longer than the deadline: a late list is an empty one. */
  async suggest(call: Call, option: string, typed: string): Promise<Suggestion[]> {
    const { promise, resolve } = Promise.withResolvers<Suggestion[]>()
    const timer = setTimeout(() => resolve([]), deadlineMs)
    this.#find(call, option)
      .then((found) => resolve(matching(found, typed)))
      .catch((error) => {
        this.#onError(error)
        resolve([])
      })
    return promise.finally(() => clearTimeout(timer))
  }

  async #find(call: Call, option: string): Promise<Suggestion[]> {
    const { threads, kinds } = this.#place
    if (option === 'provider') return kinds.map(({ provider, title }) => ({ name: title, value: provider }))
    if (option === 'model') {
      if (call.threadId === undefined || !(await threads.get(call.threadId))) return []
      const models = await threads.models(call.threadId)
      return models.map(({ id, name }) => ({ name: `${name} (${id})`, value: id }))
    }
    this.#refreshBehind(call)
    const records = await threads.sandboxes(scopeOf(call, this.#place))
    return records.filter(({ channelId }) => channelId === call.channelId).map(suggestionOf)
  }

  #refreshBehind(call: Call): void {
    const now = Date.now()
    if (now - (this.#refreshed.get(call.channelId) ?? 0) < refreshEveryMs) return
    if (this.#refreshed.size > 10_000) this.#refreshed.clear()
    this.#refreshed.set(call.channelId, now)
    this.#place.threads.sandboxes(scopeOf(call, this.#place), { refresh: true }).catch(this.#onError)
  }
}

function suggestionOf({ name, provider, status, unreachable }: SandboxRecord): Suggestion {
  return { name: `${name} (${provider}, ${unreachable ? 'unreachable' : status})`, value: name }
}

function matching(found: readonly Suggestion[], typed: string): Suggestion[] {
  const word = typed.trim().toLowerCase()
  const matches = found.filter(
    ({ name, value }) =>
      value.length <= most.characters &&
      value !== '' &&
      (name.toLowerCase().includes(word) || value.toLowerCase().includes(word)),
  )
  return matches
    .slice(0, most.choices)
    .map(({ name, value }) => ({ name: shortened(printable(name), most.characters) || value, value }))
}

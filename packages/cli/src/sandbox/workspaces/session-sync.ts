import { parsed } from './paths.ts'

/** For each session that home knows, by how much the numbers of its events are higher at home than here. */
export type KnownSessions = Readonly<Record<string, number>>

/**
 * Sessions that move between home and one workspace. opencode 1.18 copies their events, which have numbers. Home sends all
 * events of a session (`/sync/replay`), and lets the server take it over (`/sync/steal`). Then home gets events from the
 * server: as a stream, and after each connect (`/sync/history`).
 *
 * While a session moves, home may still number events of its own. After that, it refuses events whose numbers do not
 * continue its own. So numbers are changed on the way.
 */
export class SessionSync {
  readonly #known: Map<string, number>
  readonly #onKnown: (known: KnownSessions) => void
  /** Sessions that the server took over, with its number of that. How home counts is not known yet. */
  readonly #arriving = new Map<string, { last: number; missed: number }>()
  readonly #replayed = new Map<string, { wasAway: boolean }>()

  constructor(known: KnownSessions, onKnown: (known: KnownSessions) => void) {
    this.#known = new Map(Object.entries(known))
    this.#onKnown = onKnown
  }

  /** Whether home has to say how it counts. It does when it connects. */
  get isArriving(): boolean {
    return this.#arriving.size > 0
  }

  /** Why these events cannot be sent here. After a session went home, opencode there ignores its events elsewhere. */
  refusal(body: unknown): string | undefined {
    const { events } = (body ?? {}) as { events?: unknown }
    for (const event of Array.isArray(events) ? (events as StoredEvent[]) : []) {
      const id = String(event.aggregateID)
      const before = this.#replayed.get(id)
      const seen = event.seq === 0 || before === undefined ? { wasAway: false } : before
      this.#replayed.set(id, seen)
      const info = String(event.type).startsWith('session.') ? event.data?.info : undefined
      const isAway = typeof info?.workspaceID === 'string'
      if (this.#known.has(id) || (seen.wasAway && info !== undefined && !isAway)) return cannotReturn
      seen.wasAway ||= isAway
    }
    return undefined
  }

  /** The server took a session over. `state` is its header with the numbers of the last events. */
  stolen(body: unknown, state: unknown): void {
    const { sessionID } = (body ?? {}) as { sessionID?: unknown }
    const last = typeof sessionID === 'string' ? statesOf(state)[sessionID] : undefined
    if (typeof sessionID !== 'string' || last === undefined) return
    this.#replayed.delete(sessionID)
    this.#arriving.set(sessionID, { last, missed: 0 })
  }

  /** What home asks the server: for events after these numbers. */
  asked(body: unknown): Record<string, number> {
    const asked = Object.entries((body ?? {}) as Record<string, number>)
    for (const [id, session] of this.#arriving) {
      const last = asked.find(([one]) => one === id)?.[1]
      session.missed += 1
      // The move failed at home if it does not ask for this session.
      if (last === undefined && session.missed < mostMissed) continue
      this.#arriving.delete(id)
      this.#note([[id, last === undefined ? 0 : last - session.last]])
    }
    return Object.fromEntries(asked.map(([id, last]) => [id, last - (this.#known.get(id) ?? 0)]))
  }

  /** Of the server's events those of sessions that home has here, or does not know. Others have gone home. */
  history(asked: Record<string, number>, events: unknown): unknown {
    if (!Array.isArray(events)) return events
    const wanted = (events as HistoryEvent[]).filter(
      ({ aggregate_id: id }) => Object.hasOwn(asked, id) || !(this.#known.has(id) || this.#arriving.has(id)),
    )
    this.#note(wanted.map(({ aggregate_id: id }) => [id, this.#known.get(id) ?? 0]))
    return wanted.map((event) => ({ ...event, seq: event.seq + (this.#known.get(event.aggregate_id) ?? 0) }))
  }

  /** A message of the stream for home, or undefined if home gets it later. */
  streamed(message: string): string | undefined {
    if (!message.includes('"syncEvent"')) return message
    const event = parsed(message.slice('data:'.length)) as StreamedEvent | undefined
    const sync = event?.payload?.syncEvent
    if (sync === undefined || typeof sync.aggregateID !== 'string') return message
    const { aggregateID: id } = sync
    if (this.#arriving.has(id)) return undefined
    const more = this.#known.get(id)
    if (more === undefined) this.#note([[id, 0]])
    if (!more) return message
    sync.seq += more
    return `data: ${JSON.stringify(event)}\n\n`
  }

  /** The header with which home waits for events of the server. */
  state(header: unknown): string | undefined {
    const entries = Object.entries(statesOf(header))
    if (entries.length === 0) return undefined
    return JSON.stringify(
      Object.fromEntries(entries.map(([id, last]) => [id, last + (this.#known.get(id) ?? 0)])),
    )
  }

  #note(sessions: ReadonlyArray<readonly [string, number]>): void {
    const fresh = sessions.filter(([id, more]) => this.#known.get(id) !== more)
    if (fresh.length === 0) return
    for (const [id, more] of fresh) this.#known.set(id, more)
    this.#onKnown(Object.fromEntries(this.#known))
  }
}

const mostMissed = 5

/** Where opencode has these numbers in a response. */
export const stateHeader = 'x-opencode-sync'

function statesOf(header: unknown): Record<string, number> {
  const value = typeof header === 'string' ? parsed(header) : undefined
  const entries = Object.entries((value ?? {}) as Record<string, unknown>)
  return Object.fromEntries(entries.filter((one): one is [string, number] => Number.isSafeInteger(one[1])))
}

const cannotReturn =
  'This session was in a workspace and came home. opencode cannot send it to a workspace again. Fork it, and send the fork.'

interface StoredEvent {
  readonly aggregateID?: unknown
  readonly seq?: unknown
  readonly type?: unknown
  readonly data?: { readonly info?: { readonly workspaceID?: unknown } }
}

interface HistoryEvent {
  readonly aggregate_id: string
  readonly seq: number
}

interface StreamedEvent {
  readonly payload?: { readonly syncEvent?: { readonly aggregateID?: unknown; seq: number } }
}

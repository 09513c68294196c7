/**
 * A session has the folder that it works in, and opencode 1.18 does not change it when a session moves between home and a
 * workspace. The folders differ, so it is changed on the way, in both directions.
 */
export class Paths {
  readonly #home: string
  readonly #there: string

  constructor(home: string, there: string) {
    this.#home = home
    this.#there = there
  }

  /** The body of `/sync/replay`. */
  toWorkspace(body: unknown): unknown {
    const { events } = (body ?? {}) as { events?: unknown }
    for (const event of Array.isArray(events) ? events : []) this.#change(event?.data?.info, 'there')
    return body
  }

  /** The answer to `/sync/history`. */
  historyToHome(events: unknown): unknown {
    for (const event of Array.isArray(events) ? events : []) this.#change(event?.data?.info, 'home')
    return events
  }

  /** A session, as the server returns it. */
  sessionToHome(session: unknown): unknown {
    this.#change(session, 'home')
    return session
  }

  /** A message of the event stream. */
  messageToHome(message: string): string {
    if (!message.startsWith('data:') || !message.includes(JSON.stringify(this.#there).slice(0, -1)))
      return message
    const event = parsed(message.slice('data:'.length)) as GlobalEvent | undefined
    if (event === undefined) return message
    this.#change(event, 'home')
    this.#change(event.payload?.properties?.info, 'home')
    this.#change(event.payload?.syncEvent?.data?.info, 'home')
    return `data: ${JSON.stringify(event)}\n\n`
  }

  /** Changes `directory` of an object that has one. */
  #change(owner: unknown, to: 'home' | 'there'): void {
    const { directory } = (owner ?? {}) as { directory?: unknown }
    if (typeof directory !== 'string') return
    const [from, into] = to === 'home' ? [this.#there, this.#home] : [this.#home, this.#there]
    if (directory === from || directory.startsWith(`${from}/`))
      (owner as { directory: string }).directory = into + directory.slice(from.length)
  }
}

interface GlobalEvent {
  readonly payload?: {
    readonly properties?: { readonly info?: unknown }
    readonly syncEvent?: { readonly data?: { readonly info?: unknown } }
  }
}

export function parsed(text: string | Buffer | undefined): unknown {
  try {
    return JSON.parse(String(text))
  } catch {
    // It is passed on as it is, and its reader refuses it.
    return undefined
  }
}

import type { ControlConnection } from './control.ts'
import type { EventLog } from './event-log.ts'
import type { Gateway } from './gateway.ts'
import { asEvent, type EgressEvent, type Fields } from './wire.ts'

export interface EgressEventsOptions {
  /** The `seq` of the last event that you have. Default: all events that the gateway or this process keeps. */
  readonly after?: number
  /** Also yields later events, until the signal aborts. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

/** Events that wait for a slow reader. Beyond that the oldest are dropped; `seq` shows the gap. */
const MAX_WAITING = 10_000

/**
 * The decisions about one sandbox. A gateway that was restarted has lost the earlier ones, and counts on; those that this
 * process has read are in the log.
 */
export async function* followEvents(
  gateway: Gateway,
  log: EventLog,
  sandboxId: string,
  { after = 0, follow = false, signal }: EgressEventsOptions,
): AsyncGenerator<EgressEvent> {
  if (!follow) {
    const connection = await gateway.connection()
    const answer = await connection.request('events', { sandbox: sandboxId, after })
    yield* log.merged(sandboxId, after, eventsIn(answer, after))
    return
  }
  let last = after
  while (!signal?.aborted) {
    const connection = await gateway.connection()
    for await (const event of following(connection, log, { sandbox: sandboxId, after: last }, signal)) {
      if (event.seq <= last) continue
      last = event.seq
      yield event
    }
  }
}

/** Ends when the connection does, or the signal aborts. */
async function* following(
  connection: ControlConnection,
  log: EventLog,
  fields: { readonly sandbox: string; readonly after: number },
  signal: AbortSignal | undefined,
): AsyncGenerator<EgressEvent> {
  const waiting: EgressEvent[] = []
  let wake = () => {}
  let ended = false
  const end = () => {
    ended = true
    wake()
  }
  const { first, stop } = await connection.follow(fields, (value) => {
    const event = asEvent(value)
    if (!event) return
    log.add(event)
    waiting.push(event)
    if (waiting.length > MAX_WAITING) waiting.shift()
    wake()
  })
  signal?.addEventListener('abort', end, { once: true })
  void connection.closed.then(end)
  // A reader that waits keeps this process alive.
  const hold = setInterval(() => {}, 2 ** 30)
  try {
    yield* log.merged(fields.sandbox, fields.after, eventsIn(first, fields.after))
    while (!ended) {
      if (waiting.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve
          if (ended || waiting.length > 0) resolve()
        })
      }
      while (waiting.length > 0 && !signal?.aborted) yield waiting.shift()!
    }
  } finally {
    clearInterval(hold)
    stop()
    signal?.removeEventListener('abort', end)
  }
}

function eventsIn({ events }: Fields, after: number): EgressEvent[] {
  const all = Array.isArray(events) ? events.map(asEvent) : []
  return all.filter((event) => event !== undefined && event.seq > after) as EgressEvent[]
}

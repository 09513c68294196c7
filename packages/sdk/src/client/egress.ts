import type { CallOptions } from '../spec/index.ts'
import type { Http } from './http.ts'
import { serverEvents } from './server-events.ts'
import { camel } from './wire.ts'

/** A secret of the project. Its value is never returned. */
export interface SecretInfo {
  name: string
  /** Counts its values. */
  version: number
  /** The only hosts that it may be sent to. Undefined: those that a session's policy names. */
  hosts?: string[]
  createdAt: Date
  updatedAt: Date
}

/** One decision about a connection, a name or a request of a session. */
export interface EgressEvent {
  seq: number
  sessionId: string
  at: Date
  kind: 'tcp' | 'tls' | 'http' | 'dns' | 'udp' | 'icmp' | 'other'
  /** `audit`: the policy would have denied it. `error`: allowed, and failed. */
  verdict: 'allowed' | 'denied' | 'audit' | 'error'
  host?: string
  address?: string
  port?: number
  /** The rule that decided. */
  rule?: string
  /** A word such as `no_rule` or `private_address`. */
  reason?: string
  bytesIn: number
  bytesOut: number
  durationMs: number
  /** Of a request with a transform; without its query. */
  method?: string
  path?: string
  status?: number
}

export interface EgressEventsOptions extends CallOptions {
  /** Only events after this number. */
  after?: number
  verdict?: EgressEvent['verdict']
  /** Keeps waiting for new events. */
  follow?: boolean
  /** At most so many events. */
  limit?: number
}

/** Reads what is recorded in pages. With `follow`, goes on with the stream of new events. */
export async function* egressEvents(
  http: Http,
  path: string,
  options: EgressEventsOptions,
): AsyncGenerator<EgressEvent> {
  const { verdict, follow = false, limit = Infinity, signal } = options
  let { after } = options
  for (let left = limit; left > 0; ) {
    const query = { after, verdict, limit: Math.min(left, 1000) }
    const { events, next } = await http.json<EgressPage>('GET', path, {
      query,
      signal,
    })
    for (const event of events.slice(0, left)) yield egressEvent(event)
    left -= events.length
    const more = typeof next === 'number' && next !== after
    if (more) after = next
    if (events.length > 0 && more) continue
    if (!follow || left <= 0) return
    const request = { query: { after, verdict, follow }, signal }
    const response = await http.send('GET', path, request)
    for await (const { data } of serverEvents(response, signal)) {
      yield egressEvent(data)
      left -= 1
      if (left <= 0) return
    }
    return
  }
}

interface EgressPage {
  events: Array<Record<string, unknown>>
  /** Pass it as `after`. */
  next: number | null
}

function egressEvent(wire: Record<string, unknown>): EgressEvent {
  return { ...camel<EgressEvent>(wire), at: new Date(wire.at as string | number) }
}

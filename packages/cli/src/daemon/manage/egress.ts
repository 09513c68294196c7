import { timeText, widthOf, wrap } from '../../format.ts'
import { type NetworkOptions, networkOf, wireNetwork } from '../../network-choice.ts'
import { print } from '../../table.ts'
import { type Connection, connect, queryOf } from '../client/api.ts'
import { eventsOf } from '../client/events.ts'
import type { SessionOptions } from './sessions.ts'

interface EgressEvent {
  seq: number
  at: string
  kind: string
  host: string | null
  address: string | null
  port: number | null
  verdict: string
  reason: string | null
  method: string | null
  path: string | null
  status: number | null
  bytes_in: number
  bytes_out: number
}

export interface EgressOptions extends SessionOptions {
  follow?: boolean
  denied?: boolean
  verdict?: string
  after?: string
  limit?: string
  policy?: boolean
}

/** Prints the network of a session, after the change that the options ask for. */
export async function network(id: string, options: SessionOptions & NetworkOptions): Promise<number> {
  const connection = await connect(options)
  const path = await connection.session(id)
  const wanted = networkOf(options)
  const session =
    wanted === undefined
      ? await connection.json<{ network: unknown }>('GET', path)
      : await connection.json<{ network: unknown }>('PUT', `${path}/network`, wireNetwork(wanted))
  print(options.json, session.network, () => textOf(session.network))
  return 0
}

/** Prints the events, oldest first. With `--json` each is one line. */
export async function egress(id: string, options: EgressOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/egress`
  if (options.policy) {
    const { network } = await connection.json<{ network: unknown }>('GET', `${path}/policy`)
    console.log(JSON.stringify(network, undefined, 2))
    return 0
  }
  const verdict = options.denied ? 'denied' : options.verdict
  const { after, left } = await pages(connection, path, verdict, options)
  if (!options.follow || left <= 0) return 0
  await follow(connection, `${path}${queryOf({ after, verdict, follow: true })}`, left, options)
  return 0
}

async function pages(
  connection: Connection,
  path: string,
  verdict: string | undefined,
  options: EgressOptions,
): Promise<{ after: number; left: number }> {
  let after = Number(options.after ?? 0)
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : Number(options.limit)
  while (left > 0) {
    const limit = Math.min(left, 1000)
    const query = queryOf({ after, limit, verdict })
    const page = await connection.json<{ events: EgressEvent[]; next: number }>('GET', `${path}${query}`)
    for (const event of page.events) show(event, options)
    left -= page.events.length
    after = page.next
    if (page.events.length < limit) break
  }
  return { after, left }
}

async function follow(
  connection: Connection,
  path: string,
  most: number,
  options: EgressOptions,
): Promise<void> {
  const response = await connection.request('GET', path, { headers: { accept: 'text/event-stream' } })
  let left = most
  for await (const { data } of eventsOf(response)) {
    show(data as unknown as EgressEvent, options)
    left -= 1
    if (left <= 0) return
  }
}

function show(event: EgressEvent, options: EgressOptions): void {
  if (options.json) return console.log(JSON.stringify(event))
  const { verdict, kind, method, path, status, reason, bytes_in, bytes_out } = event
  const request = method === null ? '' : ` ${method} ${path ?? ''}${status === null ? '' : ` ${status}`}`
  const bytes = bytes_in + bytes_out > 0 ? ` ${bytes_out} B out, ${bytes_in} B in` : ''
  const why = reason === null ? '' : ` (${reason})`
  const line = `${timeText(event.at, options)} ${verdict} ${kind} ${targetOf(event)}${request}${bytes}${why}`
  console.log(wrap(line, widthOf(process.stdout), '  '))
}

function targetOf({ host, address, port }: EgressEvent): string {
  const target = host ?? address ?? 'unknown'
  const shown = target.includes(':') ? `[${target}]` : target
  return port === null ? shown : `${shown}:${port}`
}

function textOf(network: unknown): string {
  return typeof network === 'string' ? network : JSON.stringify(network, undefined, 2)
}

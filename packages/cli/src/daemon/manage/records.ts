import { timeText, widthOf, wrap } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type Connection, type ConnectOptions, connect, queryOf } from '../client/api.ts'
import { eventsOf } from '../client/events.ts'

export interface RecordOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  follow?: boolean
  after?: string
  before?: string
  limit?: string
  session?: string
}

interface Happened {
  id: number
  type: string
  session_id: string | null
  data: Record<string, unknown>
  created_at: string
}

interface Entry {
  id: number
  key_id: string
  subject: string | null
  action: string
  target: string | null
  status: number
  created_at: string
}

/** Prints the events of the project, or with `session` those of one session. `--json` prints one line per event. */
export async function showEvents(options: RecordOptions): Promise<number> {
  const connection = await connect(options)
  return events(connection, options, options.session && (await idOf(connection, options.session)))
}

/** The id of a session. Throws if the session does not exist. */
export async function idOf(connection: Connection, session: string): Promise<string> {
  return (await connection.json<{ id: string }>('GET', await connection.session(session))).id
}

export async function events(
  connection: Connection,
  options: RecordOptions,
  session_id: string | undefined,
): Promise<number> {
  let after = Number(options.after ?? 0)
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : Number(options.limit)
  while (left > 0) {
    const limit = Math.min(left, 1000)
    const page = await connection.json<{ events: Happened[] }>(
      'GET',
      `/v1/events${queryOf({ session_id, after, limit })}`,
    )
    for (const event of page.events) show(event, options)
    left -= page.events.length
    after = page.events.at(-1)?.id ?? after
    if (page.events.length < limit) break
  }
  if (!options.follow) return 0
  const response = await connection.request('GET', `/v1/events${queryOf({ session_id, after })}`, {
    headers: { accept: 'text/event-stream' },
  })
  for await (const { data } of eventsOf(response)) show(data as unknown as Happened, options)
  return 0
}

function show(event: Happened, options: RecordOptions): void {
  if (options.json) return console.log(JSON.stringify(event))
  const { type, session_id, data, created_at } = event
  const about = Object.entries(data)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`)
  const where = options.session === undefined && session_id !== null ? [session_id] : []
  const line = [timeText(created_at, options), type, ...where, about.join(', ')].join('  ').trimEnd()
  console.log(wrap(line, widthOf(process.stdout), '  '))
}

export async function audit(options: RecordOptions): Promise<number> {
  const query = queryOf({ before: options.before, limit: options.limit })
  const { entries } = await (await connect(options)).json<{ entries: Entry[] }>('GET', `/v1/audit${query}`)
  print(options.json, entries, () =>
    table(
      [
        { title: 'NUMBER', drop: 2 },
        'WHEN',
        { title: 'KEY', min: 8, drop: 1 },
        { title: 'SUBJECT', drop: 3 },
        'ACTION',
        { title: 'TARGET', min: 16 },
        'STATUS',
      ],
      entries.map(({ id, created_at, key_id, subject, action, target, status }) => [
        id,
        timeText(created_at, options),
        key_id,
        subject,
        action,
        target,
        status,
      ]),
    ),
  )
  return 0
}

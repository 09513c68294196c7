import { waiting } from '../progress.ts'
import { type ConnectOptions, connect } from './api.ts'
import { forEach } from './each.ts'
import { print, table } from './table.ts'

interface Session {
  id: string
  name: string | null
  status: string
  status_reason: string
  image: string
  created_at: string
  expires_at: string | null
  notes?: string[]
}

export interface SessionOptions extends ConnectOptions {
  json?: boolean
  all?: boolean
  status?: string
  name?: string
  image?: string
  ttl?: number
  snapshot?: string
  env?: Record<string, string>
  memory?: number
  cpus?: number
}

export async function createSession(options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const making = connection.json<Session>('POST', '/v1/sessions', {
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.image === undefined ? {} : { image: options.image }),
    ...(options.snapshot === undefined ? {} : { snapshot_id: options.snapshot }),
    ...(options.ttl === undefined ? {} : { ttl_seconds: options.ttl }),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...limitsOf(options),
  })
  const session = await waiting('making the session', making)
  if (!options.json) for (const note of session.notes ?? []) console.error(`note: ${note}`)
  print(options.json, session, () => session.id)
  return 0
}

/** Those that can be used; `--all` for the ended ones too. */
export async function listSessions(options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const live = 'creating,running,paused,stopped,crashed'
  const status = options.status ?? (options.all ? undefined : live)
  const sessions: Session[] = []
  let cursor: string | undefined
  do {
    const query = new URLSearchParams({
      limit: '1000',
      ...(status ? { status } : {}),
      ...(cursor ? { cursor } : {}),
    })
    const page = await connection.json<{ sessions: Session[]; next_cursor?: string }>(
      'GET',
      `/v1/sessions?${query}`,
    )
    sessions.push(...page.sessions)
    cursor = page.next_cursor
  } while (cursor !== undefined)
  print(options.json, sessions, () =>
    table(
      ['ID', 'NAME', 'STATUS', 'IMAGE', 'CREATED', 'EXPIRES'],
      sessions.map(({ id, name, status, image, created_at, expires_at }) => [
        id,
        name,
        status,
        image,
        created_at,
        expires_at,
      ]),
    ),
  )
  return 0
}

export async function getSession(id: string, options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const session = await connection.json<Record<string, unknown>>('GET', await connection.session(id))
  const line = ([key, value]: [string, unknown]) =>
    `${key}: ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`
  print(options.json, session, () => Object.entries(session).map(line).join('\n'))
  return 0
}

/** Ends those that it can; the rest is said, and is the exit code. */
export async function destroySession(ids: readonly string[], options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(ids, options, async (id) => {
    const { destroyed } = await connection.json<{ destroyed: boolean }>(
      'DELETE',
      await connection.session(id),
    )
    return { facts: { id, destroyed }, text: `${id} ${destroyed ? 'destroyed' : 'had ended already'}` }
  })
}

export type Verb = 'start' | 'stop' | 'pause' | 'resume'

export async function turnSession(
  verb: Verb,
  ids: readonly string[],
  options: SessionOptions,
): Promise<number> {
  const connection = await connect(options)
  return forEach(ids, options, async (id) => {
    const path = `${await connection.session(id)}/${verb}`
    const session = await waiting(`${verb} ${id}`, connection.json<Session>('POST', path, {}))
    return { facts: session, text: `${id} ${session.status}` }
  })
}

export async function status(options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const [who, ready] = await Promise.all([
    connection.json<{
      project_id: string
      scopes: string[]
      isolation: string
      used: Record<string, number>
    }>('GET', '/v1/whoami'),
    connection.json<{ status: string }>('GET', '/readyz'),
  ])
  print(options.json, { ...ready, ...who }, () =>
    [
      `The daemon is ${ready.status}; its sandboxes are ${who.isolation === 'none' ? 'NOT isolated' : `isolated (${who.isolation})`}.`,
      `This key: project ${who.project_id}, scopes ${who.scopes.join(', ')}.`,
      `In use: ${Object.entries(who.used)
        .map(([what, count]) => `${count} ${what}`)
        .join(', ')}.`,
    ].join('\n'),
  )
  return 0
}

function limitsOf({ memory, cpus }: SessionOptions): object {
  if (memory === undefined && cpus === undefined) return {}
  return {
    limits: {
      ...(memory === undefined ? {} : { memory_mb: Math.round(memory) }),
      ...(cpus === undefined ? {} : { cpu: cpus }),
    },
  }
}

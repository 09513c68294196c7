import { SandboxError } from '@sandkasten/sdk'
import { durationText, sizeText, timeText } from '../../format.ts'
import { type NetworkOptions, networkOf, wireNetwork } from '../../network-choice.ts'
import { waiting } from '../../progress.ts'
import { facts, print, table } from '../../table.ts'
import { allPages, type ConnectOptions, connect, liveStatuses, snapshotId } from '../client/api.ts'
import { forEach } from '../each.ts'
import { type VolumeMount, volumeMountText } from '../volume-option.ts'

interface Session {
  id: string
  name: string | null
  status: string
  status_reason: string
  image: string
  created_at: string
  expires_at: string | null
  notes?: string[]
  ttl_seconds: number
  limits: { cpu: number; memory_mb: number; pids: number; disk_mb: number | null }
  [more: string]: unknown
}

export interface SessionOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
}

export interface CreateOptions extends SessionOptions, NetworkOptions {
  name?: string
  image?: string
  runtime?: string
  snapshot?: string
  ttl?: number
  onIdle?: string
  lifetime?: number
  onLifetime?: string
  wakeOnUse?: boolean
  label?: Record<string, string>
  env?: Record<string, string>
  memory?: number
  cpus?: number
  pids?: number
  disk?: number
  user?: string
  tmp?: string
  volume?: readonly VolumeMount[]
  idempotencyKey?: string
}

export async function createSession(options: CreateOptions): Promise<number> {
  const connection = await connect(options)
  const snapshot_id = options.snapshot && (await snapshotId(connection, options.snapshot))
  const network = networkOf(options)
  const body = given({
    name: options.name,
    image: options.image,
    runtime: options.runtime,
    snapshot_id,
    ttl_seconds: options.ttl,
    on_idle: options.onIdle,
    lifetime_seconds: options.lifetime,
    on_lifetime: options.onLifetime,
    wake_on_use: options.wakeOnUse,
    labels: options.label,
    env: options.env,
    network: network && wireNetwork(network),
    user: options.user,
    tmp: options.tmp,
    volumes: options.volume,
    idempotency_key: options.idempotencyKey,
    limits: limitsOf(options),
  })
  const session = await waiting(
    'creating the session',
    connection.json<Session>('POST', '/v1/sessions', body),
  )
  if (!options.json) for (const note of session.notes ?? []) console.error(`note: ${note}`)
  print(options.json, session, () => session.id)
  return 0
}

export interface ListOptions extends SessionOptions {
  all?: boolean
  status?: string
  name?: string
  subject?: string
  label?: Record<string, string>
}

export async function listSessions(options: ListOptions): Promise<number> {
  const connection = await connect(options)
  const sessions = await allPages<Session>(connection, '/v1/sessions', 'sessions', {
    status: options.status ?? (options.all ? undefined : liveStatuses),
    name: options.name,
    subject: options.subject,
    label: Object.entries(options.label ?? {}).map(([key, value]) => `${key}=${value}`),
  })
  print(options.json, sessions, () =>
    table(
      [
        'ID',
        { title: 'NAME', min: 8 },
        'STATUS',
        { title: 'IMAGE', min: 8, drop: 3 },
        { title: 'CREATED', drop: 1 },
        { title: 'EXPIRES', drop: 2 },
      ],
      sessions.map(({ id, name, status, image, created_at, expires_at }) => [
        id,
        name,
        status,
        image,
        timeText(created_at, options),
        timeText(expires_at, options),
      ]),
    ),
  )
  return 0
}

export async function getSession(id: string, options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const session = await connection.json<Session>('GET', await connection.session(id))
  print(options.json, session, () =>
    facts(Object.entries(session).map(([key, value]) => factOf(key, value, options))),
  )
  return 0
}

function factOf(key: string, value: unknown, options: SessionOptions): [string, string] {
  if (/_seconds$/.test(key))
    return [key.replace(/_seconds$/, ''), value === null ? '–' : durationText(Number(value))]
  if (value === null || value === '') return [key, '–']
  if (/_at$|^last_activity$/.test(key)) return [key, timeText(String(value), options)!]
  if (key === 'limits') {
    const { cpu, memory_mb, pids, disk_mb } = value as Session['limits']
    const disk = disk_mb === null ? 'not limited' : sizeText(disk_mb * 1_048_576)
    return [key, `${cpu} CPU, ${sizeText(memory_mb * 1_048_576)} memory, ${pids} processes, disk ${disk}`]
  }
  if (key === 'volumes') return [key, (value as VolumeMount[]).map(volumeMountText).join(', ') || '–']
  if (key === 'network' && typeof value === 'object') return [key, JSON.stringify(value)]
  if (Array.isArray(value)) return [key, value.join(', ') || '–']
  if (typeof value === 'object')
    return [
      key,
      Object.entries(value!)
        .map(([name, text]) => `${name}=${text}`)
        .join(', ') || '–',
    ]
  return [key, String(value)]
}

/** Destroys each session; failures are reported and determine the exit code. */
export async function destroySession(ids: readonly string[], options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(ids, options, async (id) => {
    const { destroyed } = await connection.json<{ destroyed: boolean }>(
      'DELETE',
      await connection.session(id),
    )
    return { facts: { id, destroyed }, text: `${id} ${destroyed ? 'destroyed' : 'had already ended'}` }
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

export async function extendSession(id: string, seconds: number, options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/extend`
  const session = await connection.json<Session>('POST', path, { ttl_seconds: seconds })
  print(
    options.json,
    session,
    () => `${id} lives until ${timeText(session.expires_at, { iso: true }) ?? 'it is stopped'}`,
  )
  return 0
}

/** `key=value` sets a label and `key-` removes it, as in kubectl. */
export async function labelSession(
  id: string,
  changes: readonly string[],
  options: SessionOptions,
): Promise<number> {
  const labels: Record<string, string | null> = {}
  for (const change of changes) {
    const equals = change.indexOf('=')
    if (equals > 0) labels[change.slice(0, equals)] = change.slice(equals + 1)
    else if (equals === -1 && change.length > 1 && change.endsWith('-')) labels[change.slice(0, -1)] = null
    else
      throw new SandboxError('invalid_argument', `“${change}” is not a change of a label.`, {
        hint: 'Use key=value to set a label and key- to remove it.',
      })
  }
  const connection = await connect(options)
  const session = await connection.json<Session>('PATCH', await connection.session(id), { labels })
  print(options.json, session, () => factOf('labels', session.labels, options)[1])
  return 0
}

export async function forkSession(id: string, options: SessionOptions & { count?: number }): Promise<number> {
  const connection = await connect(options)
  const path = `${await connection.session(id)}/fork`
  const making = connection.json<{ sessions: Session[] }>('POST', path, given({ count: options.count }))
  const { sessions } = await waiting('forking', making)
  print(options.json, sessions, () => sessions.map((session) => session.id).join('\n'))
  return 0
}

export async function sessionStats(id: string, options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const stats = await connection.json<Record<string, number>>('GET', `${await connection.session(id)}/stats`)
  print(options.json, stats, () =>
    facts(
      Object.entries(stats).map(([name, value]) => [
        name.replace(/_bytes$/, ''),
        name.endsWith('_bytes') ? sizeText(value) : String(value),
      ]),
    ),
  )
  return 0
}

/** Omits undefined values. */
export function given(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
}

function limitsOf({ memory, cpus, pids, disk }: CreateOptions): object | undefined {
  const limits = given({
    memory_mb: memory === undefined ? undefined : Math.round(memory),
    cpu: cpus,
    pids,
    disk_mb: disk === undefined ? undefined : Math.round(disk),
  })
  return Object.keys(limits).length > 0 ? limits : undefined
}

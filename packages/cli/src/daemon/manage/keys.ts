import { timeText } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'

interface Key {
  id: string
  name: string
  scopes: string[]
  project_id: string
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  key?: string
}

export interface KeyOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  project?: string
  scope?: string[]
  expires?: number
}

export async function createKey(name: string, options: KeyOptions): Promise<number> {
  const key = await (await connect(options)).json<Key>('POST', '/v1/keys', {
    name,
    scopes: options.scope ?? ['exec'],
    project_id: options.project,
    expires_in_seconds: options.expires,
  })
  print(
    options.json,
    key,
    () =>
      `${key.key}\n\nThe key is shown only once. Its id is ${key.id}, its scopes: ${key.scopes.join(', ')}.`,
  )
  return 0
}

export async function listKeys(options: KeyOptions): Promise<number> {
  const query = options.project === undefined ? '' : `?project_id=${encodeURIComponent(options.project)}`
  const { keys } = await (await connect(options)).json<{ keys: Key[] }>('GET', `/v1/keys${query}`)
  print(options.json, keys, () =>
    table(
      ['ID', { title: 'NAME', min: 8 }, 'SCOPES', { title: 'CREATED', drop: 1 }, 'STATE'],
      keys.map((key) => [
        key.id,
        key.name,
        key.scopes.join(','),
        timeText(key.created_at, options),
        stateOf(key, options),
      ]),
    ),
  )
  return 0
}

function stateOf({ revoked_at, expires_at }: Key, options: KeyOptions): string {
  if (revoked_at) return `revoked ${timeText(revoked_at, options)}`
  if (!expires_at) return 'valid'
  return Date.parse(expires_at) > Date.now()
    ? `expires ${timeText(expires_at, options)}`
    : `expired ${timeText(expires_at, options)}`
}

export async function revokeKey(id: string, options: KeyOptions): Promise<number> {
  const query = options.project === undefined ? '' : `?project_id=${encodeURIComponent(options.project)}`
  const answer = await (await connect(options)).json<{ revoked: boolean }>(
    'DELETE',
    `/v1/keys/${encodeURIComponent(id)}${query}`,
  )
  print(options.json, answer, () =>
    answer.revoked ? `The key ${id} is revoked.` : `The key ${id} was already revoked.`,
  )
  return 0
}

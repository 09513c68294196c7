import { loadConfig, readAddress } from '@sandkasten/daemon/config'
import { SandboxError } from '@sandkasten/sdk'
import { errorOfResponse } from '@sandkasten/sdk/client'

export interface Connection {
  /** Returns the JSON of a response. A problem response is thrown as the error that it describes. */
  json<T>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<T>
  request(method: string, path: string, options?: RequestOptions): Promise<Response>
  webSocket(path: string): WebSocket
  session(idOrName: string): Promise<string>
}

export interface RequestOptions {
  body?: unknown
  bytes?: ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer>
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface ConnectOptions {
  url?: string
  config?: string
}

export async function connect(options: ConnectOptions): Promise<Connection> {
  const { url, key } = await place(options)
  const authorization = `Bearer ${key}`
  const request: Connection['request'] = async (method, path, { body, bytes, headers, signal } = {}) => {
    const init = {
      method,
      headers: {
        authorization,
        ...(bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
        ...headers,
      },
      body: bytes ?? JSON.stringify(body),
      duplex: 'half',
      signal,
    }
    const response = await send(`${url}${path}`, init)
    if (!response.ok) throw await errorOfResponse(response)
    return response
  }
  const json: Connection['json'] = async <T>(
    method: string,
    path: string,
    body?: unknown,
    options: RequestOptions = {},
  ) => (await request(method, path, { body, ...options })).json() as Promise<T>
  return {
    request,
    json,
    session: (idOrName) => sessionPath(json, idOrName),
    webSocket(path) {
      // Node's WebSocket accepts headers, unlike a browser's.
      const options = { headers: { authorization } } as unknown as string[]
      return new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, options)
    },
  }
}

export const liveStatuses = 'creating,running,paused,stopped,crashed'
const isId = /^[a-z2-7]{16}$/

/**
 * Text that looks like an id is an id. A name belongs to at most one live session. Without a live session, it means
 * the last session of that name, so that the daemon can report why it ended.
 */
async function sessionPath(json: Connection['json'], idOrName: string): Promise<string> {
  if (isId.test(idOrName)) return `/v1/sessions/${idOrName}`
  const find = async (status?: string) => {
    const query = queryOf({ name: idOrName, limit: 1, status })
    const { sessions } = await json<{ sessions: Array<{ id: string }> }>('GET', `/v1/sessions${query}`)
    return sessions[0]?.id
  }
  const id = (await find(liveStatuses)) ?? (await find())
  if (id !== undefined) return `/v1/sessions/${id}`
  throw new SandboxError('not_found', `There is no session with the id or name “${idOrName}”.`, {
    hint: 'List the sessions with sandkasten sessions list.',
  })
}

export async function snapshotId(connection: Connection, idOrName: string): Promise<string> {
  const found = (
    await allPages<{ id: string; name: string | null }>(connection, '/v1/snapshots', 'snapshots')
  )
    .filter(({ id, name }) => id === idOrName || name === idOrName)
    .map(({ id }) => id)
  if (found.includes(idOrName)) return idOrName
  if (found.length === 1) return found[0]!
  if (found.length > 1)
    throw new SandboxError('conflict', `${found.length} snapshots have the name “${idOrName}”.`, {
      hint: `Use an id: ${found.slice(0, 5).join(', ')}.`,
    })
  throw new SandboxError('not_found', `There is no snapshot with the id or name “${idOrName}”.`, {
    hint: 'List the snapshots with sandkasten snapshot list.',
  })
}

export async function allPages<T>(
  connection: Connection,
  path: string,
  field: string,
  query: Record<string, string | readonly string[] | undefined> = {},
): Promise<T[]> {
  const all: T[] = []
  for (let cursor: string | undefined; ; ) {
    const search = queryOf({ limit: '1000', cursor, ...query })
    const page = await connection.json<Record<string, T[]> & { next_cursor?: string }>('GET', path + search)
    all.push(...page[field]!)
    cursor = page.next_cursor
    if (cursor === undefined) return all
  }
}

/** `?a=1&b=2` without undefined values, or an empty string. */
export function queryOf(
  query: Record<string, string | number | boolean | readonly string[] | undefined>,
): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (Array.isArray(value)) for (const one of value) search.append(name, one)
    else if (value !== undefined) search.append(name, String(value))
  return search.size > 0 ? `?${search}` : ''
}

/**
 * The address of the daemon and the key for it. The stored key is an admin key of the local daemon: it is only sent
 * to the address that is stored with it.
 */
async function place(options: ConnectOptions): Promise<{ url: string; key: string }> {
  const given = { url: options.url ?? process.env.SANDKASTEN_URL, key: process.env.SANDKASTEN_API_KEY }
  if (given.url && given.key) return { url: checked(given.url), key: given.key }
  const { data_dir: folder } = await loadConfig({ file: options.config || undefined })
  const stored = await readAddress(folder)
  const url = given.url ?? stored.url
  if (!url)
    throw new SandboxError('unavailable', 'No daemon runs on this machine.', {
      hint: 'Start one with sandkasten up, or name one with --url or SANDKASTEN_URL.',
    })
  const key = given.key ?? (stored.url && sameOrigin(url, stored.url) ? stored.key : undefined)
  if (key) return { url: checked(url), key }
  const elsewhere = stored.key && stored.url ? ` The stored key is valid only for ${stored.url}.` : ''
  throw new SandboxError('unauthenticated', `No key is set for the daemon at ${originOf(url)}.${elsewhere}`, {
    hint: 'Set SANDKASTEN_API_KEY to a key of that daemon.',
  })
}

function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin
}

/** Removes user name and password. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'that address'
}

function checked(url: string): string {
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new SandboxError('invalid_argument', 'The address of the daemon is not an http:// or https:// URL.', {
    hint: 'Correct --url or SANDKASTEN_URL, for example http://127.0.0.1:8080.',
  })
}

async function send(url: string, init: object & { signal?: AbortSignal }): Promise<Response> {
  let response: Response
  try {
    // Following a redirect could send the key or the body to another origin.
    response = await fetch(url, { ...init, redirect: 'manual' } as RequestInit)
  } catch (cause) {
    if (init.signal?.aborted) throw new SandboxError('aborted', 'Interrupted.', { cause })
    throw new SandboxError('unavailable', `The daemon at ${originOf(url)} does not respond.`, {
      cause,
      hint: 'Check that it is running; start it with sandkasten up.',
    })
  }
  if (response.status < 300 || response.status > 399) return response
  await response.body?.cancel()
  throw new SandboxError('provider_error', `${originOf(url)} responded with a redirect.`, {
    hint: 'Use the address of the daemon itself; the key is not sent to another address.',
  })
}

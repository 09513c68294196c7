import { loadConfig, readAddress } from '@sandkasten/daemon/config'
import { errorTable, SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'

/** How the command line reaches a daemon: what it was told, or what the daemon of this machine has left for it. */
export interface Connection {
  /** An answer's JSON; a problem is thrown as the error that it is. */
  json<T>(method: string, path: string, body?: unknown): Promise<T>
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
  /** Bytes instead of JSON, streamed. */
  upload(path: string, bytes: ReadableStream<Uint8Array>): Promise<Response>
  webSocket(path: string): WebSocket
  /** The path of a session, by its id or its name. */
  session(idOrName: string): Promise<string>
}

export interface ConnectOptions {
  url?: string
  config?: string
}

export async function connect(options: ConnectOptions): Promise<Connection> {
  const { url, key } = await place(options)
  const request: Connection['request'] = async (method, path, body, headers = {}) => {
    const response = await send(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw await problemOf(response)
    return response
  }
  const json: Connection['json'] = async <T>(method: string, path: string, body?: unknown) =>
    (await request(method, path, body)).json() as Promise<T>
  return {
    request,
    json,
    session: (idOrName) => pathOf(json, idOrName),
    async upload(path, bytes) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/octet-stream' }
      const init = { method: 'PUT', headers, body: bytes, duplex: 'half' }
      const response = await send(`${url}${path}`, init as RequestInit)
      if (!response.ok) throw await problemOf(response)
      return response
    },
    webSocket(path) {
      // Node's own WebSocket takes headers, which browsers' do not.
      const options = { headers: { authorization: `Bearer ${key}` } } as unknown as string[]
      return new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, options)
    },
  }
}

const isId = /^[a-z2-7]{16}$/

/** A name is one live session's at most. What looks like an id is taken for one. */
async function pathOf(json: Connection['json'], idOrName: string): Promise<string> {
  if (isId.test(idOrName)) return `/v1/sessions/${idOrName}`
  const query = new URLSearchParams({ name: idOrName, status: 'creating,running,paused,stopped,crashed' })
  const { sessions } = await json<{ sessions: Array<{ id: string }> }>('GET', `/v1/sessions?${query}`)
  if (sessions[0]) return `/v1/sessions/${sessions[0].id}`
  throw new SandboxError('not_found', `There is no session with the id or name “${idOrName}”.`, {
    hint: 'See sandkasten sessions list.',
  })
}

/**
 * The address and the key to send there. The key that a local daemon has stored belongs to the address stored beside it:
 * it is an admin key, and is never sent to another origin.
 */
async function place(options: ConnectOptions): Promise<{ url: string; key: string }> {
  const given = { url: options.url ?? process.env.SANDKASTEN_URL, key: process.env.SANDKASTEN_API_KEY }
  if (given.url && given.key) return { url: checked(given.url), key: given.key }
  const { data_dir: folder } = await loadConfig({ ...(options.config ? { file: options.config } : {}) })
  const stored = await readAddress(folder)
  const url = given.url ?? stored.url
  if (!url)
    throw new SandboxError('unavailable', 'There is no daemon on this machine.', {
      hint: 'Start one with sandkasten up, or name one with --url or SANDKASTEN_URL.',
    })
  const key = given.key ?? (stored.url && sameOrigin(url, stored.url) ? stored.key : undefined)
  if (key) return { url: checked(url), key }
  const elsewhere = stored.key && stored.url ? ` The stored key is only for ${stored.url}.` : ''
  throw new SandboxError(
    'unauthenticated',
    `There is no key for the daemon at ${originOf(url)}.${elsewhere}`,
    {
      hint: 'Set SANDKASTEN_API_KEY to a key of that daemon.',
    },
  )
}

function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin
}

/** Without user name and password, which an address may carry by mistake. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'that address'
}

function checked(url: string): string {
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new SandboxError('invalid_argument', 'The address of the daemon is not an http:// or https:// URL.', {
    hint: 'Correct --url or SANDKASTEN_URL, for example http://127.0.0.1:8080.',
  })
}

async function send(url: string, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    // A redirect could take the key, or the body of a request, to another origin.
    response = await fetch(url, { ...init, redirect: 'manual' })
  } catch (cause) {
    if (init.signal?.aborted) throw new SandboxError('aborted', 'Interrupted.', { cause })
    throw new SandboxError('unavailable', `The daemon at ${originOf(url)} does not answer.`, {
      cause,
      hint: 'Is it running? Start it with sandkasten up.',
    })
  }
  if (response.status < 300 || response.status > 399) return response
  await response.body?.cancel()
  throw new SandboxError('provider_error', `${originOf(url)} answered with a redirect.`, {
    hint: 'Set the address to the daemon itself; the key is not sent to another address.',
  })
}

async function problemOf(response: Response): Promise<SandboxError> {
  const problem = (await response.json().catch(() => ({}))) as {
    code?: string
    detail?: string
    hint?: string
    details?: object
  }
  const code =
    problem.code !== undefined && problem.code in errorTable
      ? (problem.code as SandboxErrorCode)
      : 'provider_error'
  return new SandboxError(code, problem.detail ?? `The daemon answered with status ${response.status}.`, {
    ...(problem.hint ? { hint: inOurWords(code, problem.hint) } : {}),
    ...(problem.details ? { details: problem.details as Record<string, unknown> } : {}),
  })
}

/** The daemon's hints name routes; people here type commands. */
function inOurWords(code: SandboxErrorCode, hint: string): string {
  if (code === 'unauthenticated')
    return 'Set SANDKASTEN_API_KEY to a key that is valid; sandkasten keys create makes one, on the machine of the daemon.'
  return hint
    .replace(/GET \/v1\/sessions\/\{id\}\/shells/g, 'the session’s shells')
    .replace(/GET \/v1\/sessions(\?name=)?/g, 'sandkasten sessions list')
    .replace(/GET \/v1\/snapshots/g, 'sandkasten snapshot list')
    .replace(/POST \/v1\/sessions\/\{id\}\/(start|resume)/g, 'sandkasten sessions $1')
}

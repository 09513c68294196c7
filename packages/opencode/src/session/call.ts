import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { urlBelow } from '../http/basic.ts'
import { limitedText } from '../http/limited-text.ts'
import { longFetch } from '../http/long-fetch.ts'

/** An opencode server, as `bootstrapOpencode` returns it. */
export interface SessionServer {
  readonly url: string
  /** Sent with every request: the password, and what the endpoint of the sandbox needs. */
  readonly headers: Readonly<Record<string, string>>
  /** The folder of the session, on the machine of the server. */
  readonly directory: string
}

export interface ServerRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly body?: object
  readonly signal?: AbortSignal | undefined
  /** Default 30,000. */
  readonly timeoutMs?: number
}

export interface ServerAnswer {
  readonly value: unknown
  readonly headers: Headers
}

/** A longer response is an error. */
const mostBytes = 64 * 1024 * 1024
const callMs = 30_000

/** One request. A server that cannot be reached, or that does not answer in time, is `unavailable`. */
export async function callServer(server: SessionServer, request: ServerRequest): Promise<ServerAnswer> {
  const { method = 'GET', body, timeoutMs = callMs, signal: outer } = request
  const limit = AbortSignal.timeout(timeoutMs)
  const signal = outer ? AbortSignal.any([outer, limit]) : limit
  try {
    const response = await longFetch(addressOf(server, request), {
      method,
      headers: { ...server.headers, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
      signal,
    })
    const text = await limitedText(response, mostBytes)
    if (!response.ok) throw refused(request, response.status, text)
    return { value: response.status === 204 ? undefined : parsed(request, text), headers: response.headers }
  } catch (error) {
    if (error instanceof SandboxError) throw error
    if (outer?.aborted) throw new SandboxError('aborted', 'The request to opencode was cancelled.')
    throw unreachable(limit.aborted ? `did not answer within ${timeoutMs / 1000} s` : reasonOf(error), error)
  }
}

export function addressOf({ url, directory }: SessionServer, { path, query }: ServerRequest): URL {
  const address = urlBelow(url, path)
  address.searchParams.set('directory', directory)
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) address.searchParams.set(name, value)
  return address
}

export function unreachable(reason: string, cause?: unknown): SandboxError {
  return new SandboxError('unavailable', `The opencode server ${reason}.`, {
    cause,
    hint: 'See whether its sandbox runs, then bootstrap opencode again and reopen the session.',
  })
}

export function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return `cannot be reached (${String(code ?? message).slice(0, 100)})`
}

const codes: Readonly<Record<number, SandboxErrorCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'unauthenticated',
  404: 'not_found',
}

/** The text of a server in a sandbox, so it is cut and made one line. */
export function refused({ path }: ServerRequest, status: number, text: string): SandboxError {
  const message = text.replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 500)
  const code = codes[status] ?? (status >= 502 && status <= 504 ? 'unavailable' : 'provider_error')
  return new SandboxError(code, `opencode answered ${status} to ${path.split('/')[0]}: ${message}`, {
    details: { status },
  })
}

function parsed({ path }: ServerRequest, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const subject = path.split('/')[0]
    throw new SandboxError('provider_error', `opencode’s answer to ${subject} is too long or no JSON.`)
  }
}

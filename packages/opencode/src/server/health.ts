import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { urlBelow } from '../http/basic.ts'
import { limitedText } from '../http/limited-text.ts'
import { longFetch } from '../http/long-fetch.ts'

export interface WaitForHealthOptions {
  /** Default: as many as fit into `deadlineMs`. */
  readonly maxAttempts?: number
  /** The longest pause between two attempts. The first is 100 ms, and each is twice as long. Default 2000. */
  readonly intervalMs?: number
  /** For all attempts together. Default 180,000. */
  readonly deadlineMs?: number
  /** Sent with every request: credentials, and what the provider's endpoint needs. */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export interface Health {
  /** As the server reports it. */
  readonly version?: string
}

/** The newer path is tried if the first one is no health check. */
const paths = ['/global/health', '/api/health']
const attemptMs = 3000
const firstPauseMs = 100
const mostBytes = 65_536

/**
 * Waits until the server says that it is healthy: JSON with `healthy: true`. `url` is the address of the server, or of
 * one health check. Wrong credentials end the wait at once.
 */
export async function waitForHealth(url: string, options: WaitForHealthOptions = {}): Promise<Health> {
  const { maxAttempts = Number.POSITIVE_INFINITY, intervalMs = 2000, deadlineMs = 180_000 } = options
  const deadline = AbortSignal.timeout(deadlineMs)
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline
  let pauseMs = Math.min(firstPauseMs, intervalMs)
  let problem = 'there was no attempt'
  for (let attempt = 1; attempt <= maxAttempts && !signal.aborted; attempt += 1) {
    const answer = await checkHealth(url, options.headers, signal)
    if (answer.state === 'healthy') return answer.health
    if (answer.state === 'refused') throw wrongPassword(url, answer.status)
    // The reason of the last attempt is that the time is over.
    if (!signal.aborted) problem = answer.problem
    if (attempt < maxAttempts) await sleep(pauseMs, undefined, { signal }).catch(() => {})
    pauseMs = Math.min(pauseMs * 2, intervalMs)
  }
  if (options.signal?.aborted)
    throw new SandboxError('aborted', 'The wait for the server was cancelled.', {
      cause: options.signal.reason,
    })
  const code = signal.aborted ? 'timeout' : 'unavailable'
  const limit = signal.aborted ? `within ${deadlineMs / 1000} s` : `after ${maxAttempts} attempts`
  throw new SandboxError(code, `The server at ${origin(url)} is not healthy ${limit}: ${problem}.`, {
    hint: 'Read the output of the server, or raise deadlineMs.',
  })
}

export type HealthAnswer =
  | { readonly state: 'healthy'; readonly health: Health }
  | { readonly state: 'refused'; readonly status: number }
  | { readonly state: 'unhealthy'; readonly problem: string }

/** One attempt, with a limit of 3 seconds for each request. Never throws. */
export async function checkHealth(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<HealthAnswer> {
  let answer: HealthAnswer = { state: 'unhealthy', problem: 'there was no answer' }
  const urls = /\/health\/?$/.test(new URL(url).pathname)
    ? [new URL(url)]
    : paths.map((path) => urlBelow(url, path))
  for (const one of urls) {
    answer = await attempt(one, headers, signal)
    if (answer.state !== 'unhealthy') return answer
  }
  return answer
}

async function attempt(
  url: URL,
  headers: Readonly<Record<string, string>>,
  outer: AbortSignal | undefined,
): Promise<HealthAnswer> {
  const limit = AbortSignal.timeout(attemptMs)
  const signal = outer ? AbortSignal.any([outer, limit]) : limit
  const unhealthy = (problem: string): HealthAnswer => ({ state: 'unhealthy', problem })
  try {
    const response = await longFetch(url, { headers, signal })
    const text = await limitedText(response, mostBytes)
    if (response.status === 401 || response.status === 403)
      return { state: 'refused', status: response.status }
    const type = response.headers.get('content-type') ?? 'no type'
    const body = parsed(text)
    if (!response.ok || body?.healthy !== true)
      return unhealthy(`${url.pathname} answered ${response.status} with ${type.slice(0, 60)}`)
    const version = typeof body.version === 'string' ? body.version.slice(0, 60) : undefined
    return { state: 'healthy', health: { version } }
  } catch (error) {
    if (limit.aborted) return unhealthy(`${url.pathname} did not answer within ${attemptMs / 1000} s`)
    const { code, message } = error as { code?: unknown; message?: unknown }
    return unhealthy(`the connection failed (${String(code ?? message).slice(0, 100)})`)
  }
}

function parsed(text: string): { healthy?: unknown; version?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

export function wrongPassword(url: string, status: number): SandboxError {
  return new SandboxError('unauthenticated', `The server at ${origin(url)} refuses this password.`, {
    details: { status },
    hint: 'Pass the `password` that the server was started with, or `restart: true` to replace the server.',
  })
}

/** Without the query, which may have a token. */
function origin(url: string): string {
  return new URL(url).origin
}

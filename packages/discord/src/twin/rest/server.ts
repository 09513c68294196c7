import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Core } from '../core.ts'
import { DiscordError } from '../errors.ts'
import type { RequestFaultRules } from '../faults/requests.ts'
import type { BotRecord } from '../state/world.ts'
import { readBody } from './body.ts'
import { serveFile } from './cdn.ts'
import { createRateLimits, type Verdict } from './rate-limits.ts'
import { Created, type Route } from './route.ts'

const PREFIX = /^\/api\/v10(?=\/)/
/** Wakes waits for counters, and no wait for a channel. */
const NO_CHANNEL = ''
const BODY_OVERHEAD = 1024 * 1024

interface Target {
  readonly route: Route
  readonly method: string
  readonly segments: readonly string[]
}

/** Discord's REST API and CDN. */
export function createRestServer(
  core: () => Core,
  routes: readonly Route[],
  faults: RequestFaultRules,
): Server {
  const targets = routes.map(toTarget)
  let decide: ReturnType<typeof createRateLimits> | undefined

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      // A defect of the twin: show it in the test's output, not only as a status.
      console.error(error)
      if (!response.headersSent) send(response, 500, { message: '500: Internal Server Error', code: 0 })
    })
  })

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://twin')
    if (/^\/(ephemeral-)?attachments\//.test(url.pathname)) return serveFile(core(), request, response, url)
    const { limits, counters } = core()
    let headers: Record<string, string> = {}
    let answer: { status: number; body?: object }
    let outcome: ReturnType<RequestFaultRules['next']>
    try {
      const { route, params } = find(targets, request.method ?? 'GET', url.pathname)
      counters.record.request(route.name)
      core().changes.emit('change', NO_CHANNEL)
      const bot = findBot(core(), request)
      if (!route.isPublic && !bot) throw new DiscordError('unauthorized')
      const maxBytes = limits.fileBytes * limits.filesPerMessage + BODY_OVERHEAD
      const { body, files } = await readBody(request, maxBytes)
      outcome = faults.next(route.name, url.pathname)
      if (outcome?.kind === 'hang') return
      if (outcome?.kind === 'delay') await setTimeout(outcome.ms)
      if (outcome?.kind === 'fail') {
        return send(response, outcome.status, { message: `${outcome.status}: set by the test`, code: 0 })
      }
      if (outcome?.kind === 'rateLimit') {
        const { retryAfterMs } = outcome
        const verdict: Verdict = {
          headers: {},
          isGlobal: false,
          scope: 'shared',
          key: route.name,
          retryAfterMs,
        }
        return refuse(response, core(), route.name, verdict)
      }
      decide ??= createRateLimits(core())
      const decision = decide({
        route: route.name,
        params,
        botId: route.isPublic ? undefined : bot?.id,
        isRename: route.name === 'PATCH /channels/:channel' && ('name' in body || 'topic' in body),
      })
      if (decision.retryAfterMs !== undefined) return refuse(response, core(), route.name, decision)
      counters.record.passed(decision.key)
      headers = decision.headers
      const result = route.handle({
        core: core(),
        bot: bot as BotRecord,
        params,
        query: url.searchParams,
        body,
        files,
      })
      answer = toAnswer(result)
    } catch (error) {
      if (!(error instanceof DiscordError)) throw error
      answer = { status: error.status, body: error.toJSON() }
    }
    if (outcome?.kind === 'loseResponse') return void request.socket.resetAndDestroy()
    send(response, answer.status, answer.body, headers)
  }

  // Clients keep idle connections; closing them early would look like a fault.
  server.keepAliveTimeout = 60_000
  return server
}

function toTarget(route: Route): Target {
  const [method, path] = route.name.split(' ') as [string, string]
  return { route, method, segments: path.split('/').slice(1) }
}

function find(targets: readonly Target[], method: string, pathname: string) {
  if (!PREFIX.test(pathname)) throw new DiscordError('notFound')
  const segments = pathname.replace(PREFIX, '').split('/').slice(1).map(decode)
  let isKnownPath = false
  for (const target of targets) {
    if (target.segments.length !== segments.length) continue
    const isMatch = target.segments.every((part, index) => part.startsWith(':') || part === segments[index])
    if (!isMatch) continue
    isKnownPath = true
    if (target.method !== method) continue
    const names = target.segments.map(
      (part, index) => [part.slice(1), segments[index]!, part.startsWith(':')] as const,
    )
    const params = Object.fromEntries(
      names.filter(([, , isName]) => isName).map(([name, value]) => [name, value]),
    )
    return { route: target.route, params }
  }
  throw new DiscordError(isKnownPath ? 'methodNotAllowed' : 'notFound')
}

/** discord.js sends `@original` as `%40original`. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new DiscordError('general')
  }
}

function findBot(core: Core, request: IncomingMessage): BotRecord | undefined {
  const token = /^Bot (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
  return token === undefined ? undefined : [...core.world.bots.values()].find((bot) => bot.token === token)
}

function toAnswer(result: object | undefined): { status: number; body?: object } {
  if (result === undefined) return { status: 204 }
  if (result instanceof Created) return { status: 201, body: result.body }
  return { status: 200, body: result }
}

function refuse(response: ServerResponse, core: Core, route: string, verdict: Verdict): void {
  const seconds = verdict.retryAfterMs! / 1000
  core.counters.record.limited(route, verdict.key)
  const body = { message: 'You are being rate limited.', retry_after: seconds, global: verdict.isGlobal }
  send(response, 429, body, {
    ...verdict.headers,
    'retry-after': String(Math.ceil(seconds)),
    'x-ratelimit-scope': verdict.scope,
    ...(verdict.isGlobal && { 'x-ratelimit-global': 'true' }),
  })
}

function send(
  response: ServerResponse,
  status: number,
  body?: object,
  headers: Record<string, string> = {},
): void {
  if (response.destroyed) return
  response.writeHead(status, { ...headers, ...(body && { 'content-type': 'application/json' }) })
  response.end(body && JSON.stringify(body))
}

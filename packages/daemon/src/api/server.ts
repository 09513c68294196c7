import { SandboxError } from '@sandkasten/sdk'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { answerAndClose, limitUnreadBodies, refusalCloses } from '../http/closing-connections.ts'
import { problemOf, problemType, retryAfterSeconds, translate } from '../http/problems.ts'
import { requestId } from '../http/request.ts'
import { readJson } from '../http/request-body.ts'
import { scopeRequests } from '../http/request-scope.ts'
import { bodyBudget, limitAnswers } from '../http/response-memory.ts'
import type { Services } from '../http/services.ts'
import { type Caller, includes, isOperator } from '../keys/index.ts'
import type { Call, Route } from './route.ts'

declare module 'fastify' {
  interface FastifyRequest {
    caller?: Caller
  }
  interface FastifyContextConfig {
    route?: Route
  }
}

/** Builds the HTTP server from the routes. The caller starts listening. */
export function buildServer(services: Services, routes: readonly Route[]): FastifyInstance {
  const { config, log, patience } = services
  const app = Fastify({
    logger: false,
    genReqId: ({ headers }) => requestId(headers['x-request-id']),
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // Commands and streams may take long, so only the head of a request has a deadline here. Readers of a body set their own.
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    maxRequestsPerSocket: 0,
    http: {
      headersTimeout: patience.headMs,
      connectionsCheckingInterval: patience.headMs / 2,
      maxHeaderSize: 16_384,
    },
    forceCloseConnections: true,
    // While the daemon stops, requests get our own problem response instead of Fastify's.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 500, caseSensitive: true, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => void fail(services, error, request, reply as FastifyReply),
    clientErrorHandler(error, socket) {
      if (!socket.writable || (error as NodeJS.ErrnoException).code === 'ECONNRESET')
        return void socket.destroy()
      const problem = problemOf(new SandboxError('invalid_argument', 'The request is not valid HTTP.'))
      const body = JSON.stringify(problem)
      answerAndClose(socket, { status: 400, title: 'Bad Request', type: problemType, body })
    },
  })
  scopeRequests(app)
  app.decorateRequest('caller', undefined)
  app.removeAllContentTypeParsers()
  // The route decides whether a body is JSON or bytes, so accept every content type.
  const { memory } = services.sessions
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
    const route = request.routeOptions.config.route
    if (route?.body === 'stream') return payload
    const maxBytes = (route?.largeBody ? config.max_body_mb : 0.5) * 1_048_576
    const limits = { maxBytes, maxMs: patience.bodyMs }
    return readJson(payload, { ...limits, take: bodyBudget(memory, request) })
  })
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    reply.header('cache-control', 'no-store')
    reply.header('x-content-type-options', 'nosniff')
    // A 404 handler would run only after the body was read.
    done(request.is404 ? noRoute(request) : undefined)
  })
  app.addHook('onResponse', (request, reply, done) => {
    observe(services, request, reply)
    done()
  })
  limitAnswers(app, memory)
  app.setErrorHandler((error, request, reply) => fail(services, error, request, reply))
  for (const route of routes) register(app, services, route)
  limitUnreadBodies(app.server)
  log.debug({ routes: routes.length }, 'routes')
  return app
}

function register(app: FastifyInstance, services: Services, route: Route): void {
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    config: { route },
    exposeHeadRoute: false,
    async onRequest(request) {
      if (route.access === 'public') return
      request.caller = await services.keys.authenticate(request.headers.authorization, request.id)
      allow(request.caller, route)
    },
    async handler(request, reply) {
      const call: Call = {
        caller: request.caller ?? anonymous,
        params: parse(route.params, request.params, 'path'),
        query: parse(route.query, request.query, 'query'),
        body:
          route.body === 'stream'
            ? (request.body ?? request.raw)
            : parse(route.body, request.body ?? {}, 'body'),
        request,
        reply,
        get signal() {
          return signalOf(request, reply)
        },
      }
      const status = route.answer.status
      if (status !== undefined) reply.code(status)
      const answer = await route.handle(call)
      if (reply.sent) return reply
      return reply.send(answer)
    },
  })
}

function noRoute({ method, url }: FastifyRequest): SandboxError {
  return new SandboxError('not_found', `There is no ${method} ${url.split('?')[0]}.`, {
    hint: 'GET /openapi.json lists all routes.',
  })
}

const anonymous: Caller = { projectId: '', keyId: '', scopes: [], requestId: '' }

function allow(caller: Caller, { access }: Route): void {
  if (access === 'operator' ? isOperator(caller) : access === 'public' || includes(caller.scopes, access))
    return
  throw new SandboxError(
    'forbidden',
    access === 'operator' ? 'Only the operator may do this.' : `This needs a key with the scope “${access}”.`,
    {
      details: { scope: access },
      hint: 'Use another key.',
    },
  )
}

function parse(schema: z.ZodType | undefined, value: unknown, where: string): unknown {
  if (!schema) return undefined
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues
    .slice(0, 5)
    .map(({ path, message }) => ({ path: path.join('.'), message }))
  const [first] = issues
  throw new SandboxError(
    'invalid_argument',
    `The ${where} is wrong: ${first?.path ? `${first.path}: ` : ''}${first?.message}`,
    { details: { in: where, issues } },
  )
}

const signals = new WeakMap<FastifyRequest, AbortSignal>()

function signalOf(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const known = signals.get(request)
  if (known) return known
  const controller = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort()
  })
  signals.set(request, controller.signal)
  return controller.signal
}

async function fail(
  services: Services,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const known = translate(error)
  const problem = problemOf(known, request.id)
  if (known.code === 'internal')
    services.log.error({ request: request.id, err: known.cause ?? known }, 'unexpected error in a request')
  const retryAfter = retryAfterSeconds(problem)
  if (retryAfter !== undefined) reply.header('retry-after', retryAfter)
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer')
  if (await refusalCloses(request.raw)) reply.header('connection', 'close')
  return reply.code(problem.status).type(problemType).send(problem)
}

function observe({ metrics, audit, log }: Services, request: FastifyRequest, reply: FastifyReply): void {
  const route = request.routeOptions.config.route
  const seconds = reply.elapsedTime / 1000
  metrics.count('sandkasten_http_requests_total', { route: route?.id ?? 'none', status: reply.statusCode })
  if (route) metrics.observe('sandkasten_http_request_seconds', { route: route.id }, seconds)
  const { caller } = request
  const facts = {
    request: request.id,
    route: route?.id,
    status: reply.statusCode,
    ms: Math.round(seconds * 1e6) / 1000,
    key: caller?.keyId,
  }
  log.debug(facts, 'request')
  if (!caller || !route || route.method === 'GET') return
  // A volume is known by its name.
  const { id, name } = (request.params ?? {}) as { id?: string; name?: string }
  audit.add(caller, { action: route.id, target: id ?? name, status: reply.statusCode })
}

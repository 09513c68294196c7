import type { IncomingMessage, ServerResponse } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { FrontName } from '../config/index.ts'
import { answerAndClose, limitUnreadBodies, refusalCloses } from '../http/closing-connections.ts'
import { translate } from '../http/problems.ts'
import { requestId } from '../http/request.ts'
import { readJson } from '../http/request-body.ts'
import { scopeRequests } from '../http/request-scope.ts'
import { bodyBudget, limitAnswers } from '../http/response-memory.ts'
import type { Front, FrontFactory, FrontPlace } from './front.ts'

/** Builds the server of one front, with the limits of our API and the vendor's routes. The caller starts listening. */
export function buildFront(name: FrontName, factory: FrontFactory, place: FrontPlace): FastifyInstance {
  const { config, log, metrics, audit, sessions, patience } = place.services
  const { memory } = sessions
  const app = Fastify({
    logger: false,
    genReqId: ({ headers }) => requestId(headers['x-request-id']),
    bodyLimit: Number.MAX_SAFE_INTEGER,
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    http: {
      headersTimeout: patience.headMs,
      connectionsCheckingInterval: patience.headMs / 2,
      maxHeaderSize: 32_768,
    },
    clientErrorHandler(_, socket) {
      answerAndClose(socket, { status: 400, title: 'Bad Request', body: '' })
    },
    forceCloseConnections: true,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 500, caseSensitive: true, ignoreTrailingSlash: true },
    frameworkErrors: (error, request, reply) => void fail(error, request, reply as FastifyReply),
  })
  const fail = async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const known = translate(error)
    if (known.code === 'internal')
      log.error(
        { front: name, request: request.id, err: known.cause ?? known },
        'unexpected error in a request',
      )
    if (reply.raw.headersSent) return void reply.raw.destroy()
    const { status, body, headers = {} } = front.refuse(known, request)
    if (await refusalCloses(request.raw)) reply.header('connection', 'close')
    return reply.code(status).headers(headers).type('application/json').send(JSON.stringify(body))
  }
  scopeRequests(app)
  limitAnswers(app, memory)
  app.decorateRequest('caller', undefined)
  app.decorateRequest('target', undefined)
  app.decorateRequest('changes', undefined)
  app.decorateRequest('session', undefined)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
    if (request.routeOptions.config.streamed) return payload
    const limits = { maxBytes: config.max_body_mb * 1_048_576, maxMs: patience.bodyMs }
    return readJson(payload, { ...limits, take: bodyBudget(memory, request) })
  })
  app.setErrorHandler(fail)
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    reply.header('cache-control', 'no-store')
    reply.header('x-content-type-options', 'nosniff')
    // A 404 handler would run only after the body was read.
    if (request.is404)
      throw new SandboxError(
        'not_found',
        `There is no ${request.method} ${request.url.split('?')[0]} here.`,
        { hint: 'docs/fronts.md lists what this front supports.' },
      )
  })
  app.addHook('onResponse', async (request, reply) => {
    const { action, url } = { ...request.routeOptions.config, url: request.routeOptions.url }
    const route = `${name} ${action ?? `${request.method} ${url ?? 'none'}`}`
    metrics.count('sandkasten_http_requests_total', { route, status: reply.statusCode })
    metrics.observe('sandkasten_http_request_seconds', { route }, reply.elapsedTime / 1000)
    if (!request.caller || (request.method === 'GET' && !request.changes)) return
    const [first] = Object.values((request.params ?? {}) as Record<string, string>)
    const target = request.target ?? first
    audit.add(request.caller, { action: route, target, status: reply.statusCode })
  })
  const front: Front = factory(app, place)
  if (front.take) takeFirst(app, front.take)
  limitUnreadBodies(app.server)
  app.server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy())
    if (front.upgrade) front.upgrade(request, socket, head)
    else answerAndClose(socket, { status: 404, title: 'Not Found', body: '' })
  })
  return app
}

/** Requests that `take` serves reach neither the routes nor the framework's handling of paths. */
function takeFirst({ server }: FastifyInstance, take: NonNullable<Front['take']>): void {
  const routes = server.listeners('request') as Array<
    (request: IncomingMessage, response: ServerResponse) => void
  >
  server.removeAllListeners('request')
  server.on('request', (request, response) => {
    if (!take(request, response)) for (const route of routes) route(request, response)
  })
}

import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { SandboxError } from '@sandkasten/sdk'
import type { ToolCaller } from '../calls/index.ts'
import type { SandboxSource } from '../sources/index.ts'
import { Exchanges, exchangeOf } from './exchanges.ts'
import { isForLoopback } from './loopback.ts'
import { readJson } from './read-json.ts'
import { createSandboxServer, type SandboxServerOptions } from './server.ts'

export interface HttpServerOptions extends SandboxServerOptions {
  /** Every request must have the header `Authorization: Bearer <token>`. At least 16 characters. */
  readonly token: string
  /** Default: a free port. */
  readonly port?: number
  /** A loopback address. Default `127.0.0.1`. */
  readonly host?: '127.0.0.1' | '::1'
}

export interface SandboxHttpServer extends AsyncDisposable {
  /** The address for clients. */
  readonly url: string
  close(): Promise<void>
}

/** Serves the tools over streamable HTTP at `/mcp`, on this machine only. */
export async function serveHttp(
  sandbox: SandboxSource | ToolCaller,
  { token, port = 0, host = '127.0.0.1', ...options }: HttpServerOptions,
): Promise<SandboxHttpServer> {
  if (token.length < 16)
    throw new SandboxError('invalid_argument', 'The token must have at least 16 characters.')
  const exchanges = new Exchanges()
  const handler = createMcpHandler(
    ({ authInfo }) => {
      const exchange = exchangeOf(authInfo)
      const { seen } = exchange
      return createSandboxServer(sandbox, {
        ...options,
        seen,
        cancelled: (id) => exchanges.signalOf(exchange, id),
      })
    },
    { onerror: report, maxRequestBodySize: maxBodyBytes },
  )
  const serve = toNodeHandler(handler, { onerror: report })
  const mayCall = authorized(token)
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    if (!isForLoopback(request)) return refuse(response, 403, 'Host or Origin is not this machine.')
    if (!mayCall(request, response)) return
    if (URL.parse(request.url ?? '', 'http://x')?.pathname !== '/mcp')
      return refuse(response, 404, 'MCP is at /mcp.')
    const body = request.method === 'POST' ? await readJson(request, maxBodyBytes) : undefined
    if (body && 'problem' in body) return refuse(response, body.status, body.problem)
    const authInfo = exchanges.begin(request, response, body?.value)
    await serve(Object.assign(request, { auth: authInfo }), response, body?.value)
  }
  const server = createServer((request, response) => {
    handle(request, response).catch((error: Error) => {
      report(error)
      if (!response.headersSent) refuse(response, 500, 'Internal error.')
      else response.destroy()
    })
  })
  server.maxConnections = 256
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve())
  })
  const address = server.address() as { port: number }
  const close = async () => {
    await handler.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  const url = `http://${host === '::1' ? '[::1]' : host}:${address.port}/mcp`
  return { url, close, [Symbol.asyncDispose]: close }
}

/** The largest content of `write_file`, as JSON. */
const maxBodyBytes = 32 * 1024 * 1024

function authorized(token: string): (request: IncomingMessage, response: ServerResponse) => boolean {
  const wanted = digest(token)
  return ({ headers: { authorization = '' } }, response) => {
    const given = /^Bearer (.+)$/i.exec(authorization)?.[1] ?? ''
    if (timingSafeEqual(digest(given), wanted)) return true
    response.setHeader('www-authenticate', 'Bearer')
    refuse(response, 401, 'Send the header “Authorization: Bearer <token>” with the token of this sandbox.')
    return false
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32_000, message } })
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}

function report(error: Error): void {
  console.error(`sandkasten mcp: ${error.message}`)
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { limits } from './limits.ts'
import { createBridgeServer } from './mcp-server.ts'
import type { BridgeContext } from './tools.ts'

export interface BridgeHttpServer extends AsyncDisposable {
  readonly url: string
}

/** A thread and what its tools need. */
export type BridgeThread = Omit<BridgeContext, 'signal'>

interface Closed {
  readonly thread: BridgeThread
  readonly closed: AbortSignal
}

/** Serves the tools of all threads over streamable HTTP, on the loopback of this machine. The token names the thread. */
export async function serveBridge(
  threadOf: (token: string) => BridgeThread | undefined,
): Promise<BridgeHttpServer> {
  const handler = createMcpHandler(
    ({ authInfo }) => {
      const { thread, closed } = authInfo!.extra as unknown as Closed
      return createBridgeServer(thread, closed)
    },
    { onerror: report, maxRequestBodySize: limits.bodyBytes },
  )
  const serve = toNodeHandler(handler, { onerror: report })
  const running = new Map<string, number>()
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    if (!isForLoopback(request)) return refuse(response, 403, 'Host or Origin is not this machine.')
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const thread = threadOf(token)
    if (!thread) return refuse(response, 401, 'The token of this conversation is not valid any more.')
    if (URL.parse(request.url ?? '', 'http://x')?.pathname !== '/mcp')
      return refuse(response, 404, 'MCP is at /mcp.')
    const { threadId } = thread
    const count = running.get(threadId) ?? 0
    if (count >= limits.requests) return refuse(response, 429, 'Too many requests at the same time.')
    running.set(threadId, count + 1)
    const closed = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) closed.abort()
      const left = running.get(threadId)! - 1
      if (left === 0) running.delete(threadId)
      else running.set(threadId, left)
    })
    const body = request.method === 'POST' ? await readBody(request) : undefined
    if (body === 'too-large') return refuse(response, 413, 'The request is too large.')
    if (body === 'no-json') return refuse(response, 400, 'The body is not JSON.')
    const extra = { thread, closed: closed.signal } satisfies Closed
    const auth = { token: '', clientId: threadId, scopes: [], extra }
    await serve(Object.assign(request, { auth }), response, body?.value)
  }
  const server = createServer({ requestTimeout: limits.callMs }, (request, response) => {
    handle(request, response).catch((error: Error) => {
      report(error)
      if (!response.headersSent) refuse(response, 500, 'Internal error.')
      else response.destroy()
    })
  })
  server.maxConnections = 4_096
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      await handler.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function readBody(request: IncomingMessage): Promise<{ value: unknown } | 'too-large' | 'no-json'> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size > limits.bodyBytes) return 'too-large'
    chunks.push(chunk)
  }
  try {
    return { value: JSON.parse(Buffer.concat(chunks).toString('utf8')) }
  } catch {
    return 'no-json'
  }
}

/** A web page that resolves its own name to 127.0.0.1 sends that name as `Host`. */
function isForLoopback({ headers: { host, origin } }: IncomingMessage): boolean {
  const isLocal = (url: string) => URL.parse(url)?.hostname === '127.0.0.1'
  return isLocal(`http://${host ?? ''}`) && (origin === undefined || isLocal(origin))
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32_000, message } })
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(body)
}

function report(error: Error): void {
  console.error(`sandkasten threads: ${error.message.slice(0, 500)}`)
}

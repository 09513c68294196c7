import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { closesAfter } from '../http/closing-connections.ts'
import type { ReachedPort, Target } from '../ports/index.ts'
import { dial, dialError } from './dial.ts'
import { hasBody } from './request-headers.ts'
import { responseHeaders } from './response-headers.ts'

export interface Forwarding {
  readonly port: ReachedPort
  readonly target: Target
  readonly path: string
  readonly headers: readonly string[]
  /** How long a visitor may pause while sending a body. */
  readonly bodyIdleMs: number
  /** Called when the visitor sends data. */
  touch(): void
}

/**
 * Forwards one request and its response as streams, each at the pace of its receiver. Rejects while the visitor can
 * still get an error. After the response's head, a failure cuts the connection, so that the visitor sees an incomplete
 * response.
 */
export async function forward(
  request: IncomingMessage,
  response: ServerResponse,
  { port, target, path, headers, bodyIdleMs, touch }: Forwarding,
): Promise<void> {
  const { outgoing, stream } = await dial(port, { method: request.method!, path, headers })
  return new Promise((resolve, reject) => {
    let idle: NodeJS.Timeout | undefined
    const over = (error?: Error) => {
      clearTimeout(idle)
      outgoing.destroy()
      stream.destroy()
      if (!error) return resolve()
      if (!response.headersSent && !response.destroyed) return reject(error)
      response.destroy()
      resolve()
    }
    response.once('close', () => over())
    // This event may come several times; only the first is reported.
    outgoing.on('error', (error) => over(SandboxError.is(error) ? error : dialError(error, target.port)))
    outgoing.on('upgrade', (_, socket) => {
      socket.destroy()
      over(new SandboxError('provider_error', 'The sandbox switched protocols without being asked.'))
    })
    outgoing.on('response', (answer) => {
      try {
        // If the sandbox responds before the body is complete, do not wait for the rest.
        const close = hasBody(request) && closesAfter(request) ? ['Connection', 'close'] : []
        response.writeHead(answer.statusCode!, [...responseHeaders(answer, target), ...close])
        response.flushHeaders()
      } catch (error) {
        return over(dialError(error, target.port))
      }
      pipeline(answer, response, (error) => over(error ?? undefined))
    })
    // The visitor may have left while we dialled.
    if (response.destroyed) return over()
    if (!hasBody(request)) return void outgoing.end()
    const wait = () => {
      clearTimeout(idle)
      idle = setTimeout(() => {
        // The visitor is not too slow if the sandbox does not read.
        if (request.isPaused()) return wait()
        over(new SandboxError('timeout', 'The body stopped arriving.', { hint: 'Send it faster.' }))
      }, bodyIdleMs)
    }
    wait()
    request.on('data', () => {
      touch()
      wait()
    })
    request.once('end', () => clearTimeout(idle))
    request.pipe(outgoing)
  })
}

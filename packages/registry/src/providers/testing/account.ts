import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Account {
  /** For the provider `daemon`. */
  readonly url: string
  readonly requests: string[]
  close(): Promise<void>
}

/**
 * The part of the daemon's API that a health check and a list use, for one key. It repeats every request's credential
 * in the message, hint and details of its errors. With `silent`, it never answers.
 */
export async function startAccount(key: string, { silent = false } = {}): Promise<Account> {
  const requests: string[] = []
  const server: Server = createServer((request, response) => {
    const credential = request.headers.authorization ?? ''
    requests.push(`${request.method} ${request.url}`)
    if (silent) return
    const body = (content: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(content))
    if (request.url === '/readyz') return body({ status: 'ready' })
    if (credential === `Bearer ${key}` && request.url?.startsWith('/v1/sessions?limit=1'))
      return body({ sessions: [] })
    const echo = `not accepted: ${credential}`
    return body(
      { code: 'unauthenticated', detail: echo, hint: echo, details: { echo: { headers: [credential] } } },
      401,
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Short questions to a daemon near by, in Node: over plain HTTP they go through `node:http`, which answers some tenths of a millisecond sooner than
 * `fetch` does; with one command in little more than that, this counts. Everything else (streams, TLS, other runtimes, somebody's own `fetch`, a proxy of
 * the environment) is left to `fetch`. Nothing is imported, so whoever bundles this for a browser meets no module of Node's.
 */
export type Ask = (
  url: string,
  init: { method: string; headers: Readonly<Record<string, string>>; body?: string; signal?: AbortSignal },
) => Promise<Answer>

export interface Answer {
  readonly status: number
  readonly text: string
  /** With the status and headers, for those who want to know more. */
  response(): Response
}

/** Undefined where `fetch` is to be used. */
export function nodeAsk(baseUrl: string): Ask | undefined {
  const node = globalThis.process
  if (!baseUrl.startsWith('http:') || !node?.versions?.node || node.env?.NODE_USE_ENV_PROXY) return undefined
  const http = node.getBuiltinModule?.('node:http')
  if (!http) return undefined
  // Connections that nobody uses do not keep the process alive.
  const agent = new http.Agent({ keepAlive: true })
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const length =
        body === undefined ? {} : { 'content-length': String(new TextEncoder().encode(body).length) }
      const request = http.request(url, {
        method,
        agent,
        headers: { ...headers, ...length },
        ...(signal && { signal }),
      })
      // As `fetch` says it.
      const failed = (cause: unknown) => reject(new TypeError('The request failed.', { cause }))
      request.once('error', failed)
      request.once('response', (message) => {
        const parts: string[] = []
        message.setEncoding('utf8')
        message.on('data', (part: string) => parts.push(part))
        message.once('error', failed)
        message.once('end', () => {
          const { statusCode: status = 0, rawHeaders } = message
          const text = parts.join('')
          resolve({
            status,
            text,
            response: () => new Response(text || null, { status, headers: pairs(rawHeaders) }),
          })
        })
      })
      request.end(body)
    })
}

function pairs(raw: readonly string[]): [string, string][] {
  const all: [string, string][] = []
  for (let at = 0; at + 1 < raw.length; at += 2) all.push([raw[at]!, raw[at + 1]!])
  return all
}

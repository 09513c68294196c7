import { SandboxError } from '../errors.ts'
import type { Answer } from './answer-reader.ts'
import { DownloadReader, type DownloadStart, UnknownLength } from './download-reader.ts'
import { KeptConnection, type OnRead, type Socket } from './kept-connection.ts'

/**
 * HTTP without `fetch`, for Node and plain HTTP. A command in a sandbox takes a millisecond, and a request through `node:http` costs 0.4 ms of its own, this one
 * 0.2 ms (measured by hand, in turns, against a server that does nothing). Streams to the daemon, TLS, other runtimes, a caller's own `fetch` and proxies from the
 * environment use `fetch`. Nothing is imported from Node, so bundles for browsers stay free of it.
 */
export interface NodeHttp {
  /** One request and its whole answer. */
  ask(path: string, init: AskInit): Promise<Answer>
  /** A GET whose body is read as it arrives. Undefined: read it with `fetch`. */
  download(path: string, init: Pick<AskInit, 'headers' | 'signal'>): Promise<DownloadStart | undefined>
}

interface AskInit {
  method: string
  headers: Readonly<Record<string, string>>
  body?: string
  signal?: AbortSignal
}

/** Undefined where `fetch` is to be used. `path` is what follows this URL. */
export function nodeHttp(baseUrl: string): NodeHttp | undefined {
  const node = globalThis.process
  if (!baseUrl.startsWith('http:') || !node?.versions?.node || node.env?.NODE_USE_ENV_PROXY) return undefined
  const net = node.getBuiltinModule?.('node:net')
  if (!net || !URL.canParse(baseUrl)) return undefined
  const { host, hostname, port, pathname, username, password } = new URL(baseUrl)
  if (username !== '' || password !== '') return undefined
  const prefix = pathname === '/' ? '' : pathname
  const where = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80), noDelay: true }
  const free: KeptConnection[] = []
  const connect = (onread: OnRead) => net.connect({ ...where, onread }) as Socket
  const connection = () => lastFree(free) ?? new KeptConnection(connect, (gone) => drop(free, gone))
  const giveBack = (used: KeptConnection) => {
    if (used.usable) free.push(used)
  }
  return {
    async ask(path, { method, headers, body, signal }) {
      const request = requestText(method, `${prefix}${path}`, { host, ...headers }, body)
      const used = connection()
      const answer = await used.ask(request, signal)
      giveBack(used)
      return answer
    },
    async download(path, { headers, signal }) {
      const request = requestText('GET', `${prefix}${path}`, { host, ...headers }, undefined)
      const used = connection()
      const reader = new DownloadReader(used)
      const abort = () => {
        reader.fail(signal!.reason)
        used.close()
      }
      signal?.addEventListener('abort', abort, { once: true })
      used.download(request, reader)
      const start = await reader.started.catch((error: Error) => {
        signal?.removeEventListener('abort', abort)
        if (error.cause instanceof UnknownLength) return undefined
        throw error
      })
      return (
        start && {
          head: start.head,
          async *chunks() {
            try {
              yield* start.chunks()
              giveBack(used)
            } finally {
              signal?.removeEventListener('abort', abort)
            }
          },
        }
      )
    },
  }
}

function requestText(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): string {
  let head = `${method} ${target} HTTP/1.1\r\n`
  for (const [name, value] of Object.entries(headers)) {
    if (/[^\t\x20-\x7e]/.test(value))
      throw new SandboxError('invalid_argument', `The header ${name} cannot have this value.`, {
        hint: 'Use printable ASCII characters.',
      })
    head += `${name}: ${value}\r\n`
  }
  if (/[^\x21-\x7e]/.test(target)) throw new SandboxError('invalid_argument', 'The path is none of a URL.')
  const length = body === undefined ? 0 : new TextEncoder().encode(body).length
  if (body !== undefined || method === 'POST' || method === 'PUT' || method === 'PATCH')
    head += `content-length: ${length}\r\n`
  return `${head}\r\n${body ?? ''}`
}

/** The one that was used last, so that the others can time out. */
function lastFree(free: KeptConnection[]): KeptConnection | undefined {
  for (let one = free.pop(); one; one = free.pop()) {
    if (one.usable) return one
    one.close()
  }
  return undefined
}

function drop(free: KeptConnection[], gone: KeptConnection): void {
  const at = free.indexOf(gone)
  if (at >= 0) free.splice(at, 1)
}

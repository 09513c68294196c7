import { chmod, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import type { Registry } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { withLock } from '@sandkasten/sdk/internal'
import { localCaller, type ToolCaller } from '../calls/index.ts'
import { registrySource, type SandboxSource } from '../sources/index.ts'
import { BrokerCalls } from './calls.ts'
import { Handles, type SandboxGrant } from './handles.ts'
import { type BrokerPlace, createPlace } from './place.ts'

export interface BrokerOptions {
  readonly registry: Registry
  readonly place: BrokerPlace
  /** Also listen on this port of the loopback address. Default: only on the socket. */
  readonly port?: number
  /** End after this time without calls. Default: never. */
  readonly idleMs?: number
  readonly onReport?: (line: string) => void
}

export interface Broker extends AsyncDisposable {
  /** Of `port`. */
  readonly url?: string
  /** Resolves when the broker has ended: it was closed, was idle, or another broker has taken its socket. */
  readonly ended: Promise<void>
  close(): Promise<void>
}

/**
 * Runs tools of named sandboxes for agents. This process has the registry, and so the credentials of the providers; an
 * agent has a token that opens one sandbox.
 */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const { registry, place, port, idleMs, onReport = () => {} } = options
  await createPlace(place)
  const handles = new Handles(place.handles)
  const sandboxes = new Map<string, { source: SandboxSource; caller: ToolCaller }>()
  const callerOf = ({ sandboxId, name, scope }: SandboxGrant): ToolCaller => {
    const known = sandboxes.get(sandboxId)
    if (known) return known.caller
    const source = registrySource(registry.in(scope), { name, id: sandboxId })
    const caller = localCaller(source)
    sandboxes.set(sandboxId, { source, caller })
    return caller
  }
  const ending = new AbortController()
  const calls = new BrokerCalls({ handles, callerOf, onReport })
  const servers = [createServer((...exchange) => calls.serve(...exchange))]
  const ino = await withLock(`${place.socket}.lock`, () => listenOnSocket(servers[0]!, place))
  let url: string | undefined
  if (port !== undefined) {
    const server = createServer((...exchange) => calls.serveLoopback(...exchange))
    servers.push(server)
    url = await listenOnLoopback(server, port)
  }
  for (const server of servers) {
    // Uploads take as long as the sandbox needs.
    server.requestTimeout = 0
    server.maxConnections = 512
  }
  // Promises of the registry, such as snapshots before a provider ends a sandbox, are kept meanwhile.
  const working = registry.work({ signal: ending.signal }).catch(() => {})

  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= (async () => {
      clearInterval(watch)
      ending.abort()
      calls.abort()
      for (const server of servers) server.closeAllConnections()
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
      await removeOwn(place.socket, ino)
      await Promise.allSettled([...sandboxes.values()].map(({ source }) => source[Symbol.asyncDispose]()))
      await working
    })()
    return closing
  }
  const ended = Promise.withResolvers<void>()
  ending.signal.addEventListener('abort', () => void close().then(ended.resolve, ended.reject))
  const watch = setInterval(
    async () => {
      const isReplaced = (await stat(place.socket).catch(() => undefined))?.ino !== ino
      const isIdle = idleMs !== undefined && calls.idleForMs >= idleMs
      if (calls.running === 0 && (isReplaced || isIdle)) void close()
    },
    Math.min(idleMs ?? lookMs, lookMs),
  )
  return { url, ended: ended.promise, close, [Symbol.asyncDispose]: close }
}

const lookMs = 10_000

/** Under another name first: a client either finds no socket, or one that answers. Returns the socket's inode. */
async function listenOnSocket(server: Server, { socket, pid }: BrokerPlace): Promise<number> {
  if (await answers(socket))
    throw new SandboxError('conflict', `A broker is already running at ${socket}.`, {
      hint: `Agents use it. To replace it, end its process first; its number is in ${pid}.`,
    })
  const draft = `${socket}.${process.pid}`
  await rm(draft, { force: true })
  await listen(server, { path: draft })
  await chmod(draft, 0o600)
  await writeFile(pid, `${process.pid}\n`, { mode: 0o600 })
  await rename(draft, socket)
  return (await stat(socket)).ino
}

async function listenOnLoopback(server: Server, port: number): Promise<string> {
  await listen(server, { port, host: '127.0.0.1' })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

function listen(server: Server, options: object): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => resolve())
  })
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const tried = connect(socket)
    tried.once('connect', () => resolve(true))
    tried.once('error', () => resolve(false))
    tried.once('connect', () => tried.destroy())
  })
}

async function removeOwn(socket: string, ino: number): Promise<void> {
  const found = await stat(socket).catch(() => undefined)
  if (found?.ino === ino) await rm(socket, { force: true })
}

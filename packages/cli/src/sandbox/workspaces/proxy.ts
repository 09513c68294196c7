import { timingSafeEqual } from 'node:crypto'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { streamEvents } from './events.ts'
import { bytesOf, forward, forwardUpgrade, refuseUpgrade } from './forward.ts'
import { parsed } from './paths.ts'
import { stateHeader } from './session-sync.ts'
import type { Awake, Workspace } from './workspace.ts'

export interface ProxyOptions {
  readonly token: string
  /** Default: a free one. */
  readonly port?: number | undefined
  find(sandboxId: string): Workspace | undefined
}

/**
 * Where opencode at home reaches its workspaces, on this machine’s loopback. opencode keeps the address of a workspace for
 * as long as it runs. The address of a sandbox changes with each start.
 */
export class WorkspaceProxy {
  readonly #options: ProxyOptions
  readonly #server: Server

  private constructor(options: ProxyOptions) {
    this.#options = options
    this.#server = createServer((...exchange) => void this.#serve(...exchange))
    this.#server.on('upgrade', (...exchange) => void this.#upgrade(...exchange))
    // A prompt takes as long as it takes.
    this.#server.requestTimeout = 0
  }

  static async listen(options: ProxyOptions): Promise<WorkspaceProxy> {
    const proxy = new WorkspaceProxy(options)
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject)
      proxy.#server.listen({ host: '127.0.0.1', port: options.port ?? 0 }, resolve)
    })
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  addressOf({ sandboxId }: Workspace): { url: string; headers: Record<string, string> } {
    return {
      url: `http://127.0.0.1:${this.port}/${sandboxId}`,
      headers: { authorization: `Bearer ${this.#options.token}` },
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    outgoing.on('error', () => {})
    try {
      if (!this.#isAuthorized(incoming)) return refuse(outgoing, 401, 'The token is missing or wrong.')
      const { workspace, path } = this.#route(incoming)
      if (workspace === undefined) return refuse(outgoing, 404, 'There is no such workspace.')
      await this.#answer(incoming, outgoing, workspace, path)
    } catch (error) {
      const { message } = error as Error
      const hint = error instanceof SandboxError ? ` ${error.hints.cli}` : ''
      if (outgoing.headersSent) outgoing.destroy()
      else refuse(outgoing, 502, `${message}${hint}`)
    }
  }

  async #answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    workspace: Workspace,
    path: string,
  ): Promise<void> {
    const call = `${incoming.method} ${path.split('?')[0]}`
    if (call === 'GET /global/event') return streamEvents(outgoing, workspace)
    // Nothing happens in a sandbox that does not run.
    if (call === 'POST /sync/history' && !(await workspace.isRunning())) return sendJson(outgoing, [])
    if (call === 'GET /vcs/diff/raw') {
      const patch = await workspace.patch()
      // Otherwise the whole difference, which does not apply at home, and opencode says so.
      if (patch !== undefined)
        return void outgoing.writeHead(200, { 'content-type': 'text/x-diff' }).end(patch)
    }
    // Changes of another workspace apply to the state of home.
    if (call === 'POST /vcs/apply') await workspace.upload()
    const { sessions } = workspace
    let body = readCalls.has(call) ? parsed(await bytesOf(incoming)) : undefined
    if (call === 'POST /sync/replay') {
      const refusal = sessions.refusal(body)
      if (refusal !== undefined) return refuse(outgoing, 409, refusal)
    }
    const asked = call === 'POST /sync/history' ? sessions.asked(body) : {}
    if (call === 'POST /sync/history') body = asked
    const work = async (awake: Awake) => {
      const { paths, server } = awake
      if (call === 'POST /sync/replay') body = paths.toWorkspace(body)
      const change = (value: unknown, headers: IncomingHttpHeaders) => {
        if (call === 'POST /sync/steal') sessions.stolen(body, headers[stateHeader])
        if (call === 'POST /sync/history') return paths.historyToHome(sessions.history(asked, value))
        return paths.sessionToHome(value)
      }
      const changes = readCalls.has(call) || sessionCall.test(call)
      try {
        await forward(incoming, outgoing, server, path, {
          body,
          change: changes ? change : undefined,
          changeHeaders: (headers) => {
            // opencode would wait for an event that it does not get before it connects again.
            const { [stateHeader]: state, ...rest } = headers
            const changed = call === 'POST /sync/steal' ? undefined : sessions.state(state)
            return changed === undefined ? rest : { ...rest, [stateHeader]: changed }
          },
        })
      } catch (error) {
        await workspace.forget(awake)
        throw error
      }
    }
    // Requests of the move itself do not wait for its end.
    if (call === 'POST /sync/history') {
      await work(await workspace.wake())
      return workspace.caughtUp()
    }
    if (call === 'POST /sync/steal') return workspace.move(work)
    return workspace.use(work)
  }

  async #upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => {})
    const { workspace, path } = this.#route(incoming)
    if (workspace === undefined) return refuseUpgrade(socket, 404)
    // opencode sends no headers with a WebSocket. Its server checks the ticket in the query.
    const isTicket = /^\/pty\/[^/?]+\/connect\?(.*&)?ticket=/.test(path)
    const isAuthorized = this.#isAuthorized(incoming)
    if (!isAuthorized && !isTicket) return refuseUpgrade(socket, 401)
    try {
      await workspace.use(async ({ server }) => {
        const headers = Object.entries(server.headers).filter(
          ([name]) => isAuthorized || name.toLowerCase() !== 'authorization',
        )
        const upstream = { url: server.url, headers: Object.fromEntries(headers) }
        forwardUpgrade(incoming, socket, head, upstream, path)
      })
    } catch {
      refuseUpgrade(socket, 502)
    }
  }

  #route({ url = '/' }: IncomingMessage): { workspace: Workspace | undefined; path: string } {
    const [, id = '', path = '/'] = /^\/([^/?]+)(\/.*)?$/.exec(url) ?? []
    return { workspace: this.#options.find(id), path }
  }

  #isAuthorized({ headers }: IncomingMessage): boolean {
    const given = Buffer.from(headers.authorization ?? '')
    const wanted = Buffer.from(`Bearer ${this.#options.token}`)
    return given.length === wanted.length && timingSafeEqual(given, wanted)
  }
}

const readCalls = new Set(['POST /sync/replay', 'POST /sync/steal', 'POST /sync/history'])
/** Calls that return a session. */
const sessionCall = /^[A-Z]+ \/session(\/[^/]+(\/fork)?)?$/

function refuse(outgoing: ServerResponse, status: number, text: string): void {
  outgoing.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
}

function sendJson(outgoing: ServerResponse, value: unknown): void {
  outgoing.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

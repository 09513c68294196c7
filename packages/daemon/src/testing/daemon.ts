import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { configOf } from '../config/index.ts'
import { type Daemon, type DaemonOptions, openDaemon } from '../daemon.ts'
import type { Context } from '../sessions/index.ts'
import { linkHostLayers } from './host-layers.ts'

/** A daemon in its own folder, on a free port, with helpers to call it. */
export interface TestDaemon {
  readonly folder: string
  readonly daemon: Daemon
  /** The running daemon's store, provider and events. */
  readonly context: Context
  readonly key: string
  /** Sends a request with JSON and parses the response. */
  call(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  fetch(path: string, init?: RequestInit & { key?: string }): Promise<Response>
  /** Creates a session and returns its id. */
  session(body?: Record<string, unknown>): Promise<string>
  /** Stops the daemon and starts it again in the same folder. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export interface CallOptions {
  key?: string
  headers?: Record<string, string>
}

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  body: any
  headers: Headers
}

export interface TestDaemonOptions extends Omit<Partial<DaemonOptions>, 'config'> {
  /** For a daemon that sees other files of this machine than the tests, such as other certificates. */
  readonly ownHostLayers?: boolean
}

export async function startTestDaemon(
  config: Record<string, unknown> = {},
  { ownHostLayers = false, ...options }: TestDaemonOptions = {},
): Promise<TestDaemon> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-daemon-'))
  const key = 'sk-test-0123456789abcdef'
  const all = {
    listen: '127.0.0.1:0',
    data_dir: folder,
    isolator: 'process',
    api_key: key,
    log_level: 'silent',
    ...config,
  }
  if (!ownHostLayers) await linkHostLayers(all)
  const start = () => openDaemon({ config: configOf(all), ...options })
  let opened = await start().catch(async (error) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
  const request = (where: string, { key: other, ...init }: RequestInit & { key?: string } = {}) =>
    fetch(`${opened.daemon.url}${where}`, {
      ...init,
      headers: { ...(other === '' ? {} : { authorization: `Bearer ${other ?? key}` }), ...init.headers },
    })
  const call: TestDaemon['call'] = async (method, where, body, options = {}) => {
    const headers = {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    }
    const response = await request(where, { method, body: JSON.stringify(body), headers, key: options.key })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : parsed(text),
    }
  }
  return {
    folder,
    key,
    get daemon() {
      return opened.daemon
    },
    get context() {
      return opened.context
    },
    call,
    fetch: request,
    async session(body = {}) {
      const answer = await call('POST', '/v1/sessions', body)
      if (answer.status !== 201) throw new Error(`create: ${answer.status} ${JSON.stringify(answer.body)}`)
      return answer.body.id
    },
    async restart() {
      await opened.daemon.close()
      opened = await start()
    },
    async stop() {
      await endSessions(opened)
      await opened.daemon.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function endSessions({ daemon, context }: Awaited<ReturnType<typeof openDaemon>>): Promise<void> {
  const { store, instanceId, provider } = context
  for (const session of await store.sessions.live(instanceId)) {
    const caller = { projectId: session.project_id, keyId: 'test', scopes: [], requestId: 'test' }
    await daemon.sessions.destroy(caller, session.id)
  }
  for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export interface ReceivedEvent {
  event: string
  id?: string
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  data: any
}

/** Parses the events of a stream. */
export async function* eventsOf(response: Response): AsyncGenerator<ReceivedEvent> {
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const fields = new Map(
        text
          .slice(0, end)
          .split('\n')
          .filter((line) => !line.startsWith(':'))
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      )
      text = text.slice(end + 2)
      const data = fields.get('data')
      if (data !== undefined)
        yield { event: fields.get('event') ?? '', id: fields.get('id'), data: JSON.parse(data) }
    }
  }
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

import { SandboxError } from '../errors.ts'
import { abortedError } from '../shared/abort.ts'
import { concat, encode } from '../shared/bytes.ts'
import { randomId } from '../shared/ids.ts'
import type { BytesSource, CallOptions } from '../spec/index.ts'
import { Command } from './command.ts'
import { SessionFiles } from './files.ts'
import { type Http, type RequestOptions, segment } from './http.ts'
import { errorOf } from './problem.ts'
import { serverEvents } from './server-events.ts'
import { SessionTerminal } from './terminal.ts'
import type {
  CommandInfo,
  ExecOptions,
  ExecResult,
  PortInfo,
  RunOptions,
  RunResult,
  SessionEvent,
  SessionInfo,
  ShellInfo,
  SnapshotInfo,
  StartOptions,
} from './types.ts'
import {
  base64,
  camel,
  commandInfo,
  commandResult,
  portInfo,
  sessionEvent,
  sessionInfo,
  snake,
  snapshotInfo,
} from './wire.ts'

/** Longer commands are streamed: fetch gives up on an answer that does not begin for five minutes. */
const longMs = 240_000

/**
 * One session. `exec`, `write`, `read` and `destroy` are what an agent needs; the rest is for who builds one. With
 * `bound`, every use is refused with `interrupted` once somebody has started the session anew.
 */
export class Session {
  readonly id: string
  readonly files: SessionFiles
  readonly #http: Http
  readonly #path: string
  #bound: number | undefined

  constructor(http: Http, id: string, options: { bound?: number } = {}) {
    this.#http = http
    this.id = id
    this.#path = `/v1/sessions/${segment(id, 'session')}`
    this.#bound = options.bound
    this.files = new SessionFiles(http, this.#path, () => this.#headers())
  }

  /** The start of the session that this object means; undefined: whichever there is. */
  get bound(): number | undefined {
    return this.#bound
  }

  /** In the session's shell: directory, variables, functions and background jobs live on. */
  async exec(cmd: string, options: ExecOptions = {}): Promise<ExecResult> {
    const { timeoutMs, shell, onOutput, maxOutputBytes, execId, signal } = options
    const json = { cmd, ...snake({ timeoutMs, shell, maxOutputBytes }) }
    if (!onOutput && execId === undefined && (timeoutMs ?? 0) <= longMs)
      return commandResult(await this.#post('/exec', { json, signal }))
    const command = await this.#stream('/exec', json, execId, signal)
    return untilAborted(command, signal, () => command.wait<ExecResult>({ ...options }))
  }

  async write(path: string, content: string | Uint8Array | BytesSource): Promise<void> {
    await this.files.write(path, content)
  }

  /** All of it, or the first `maxBytes`. */
  async read(path: string, opts: { maxBytes?: number } = {}): Promise<Uint8Array> {
    const chunks: Uint8Array[] = []
    const { maxBytes } = opts
    for await (const chunk of await this.files.readChunks(
      path,
      maxBytes === undefined ? {} : { end: maxBytes },
    ))
      chunks.push(chunk)
    return concat(chunks)
  }

  /** For good, with its disk. */
  async destroy(options: CallOptions = {}): Promise<void> {
    await this.end(options)
  }

  /** As `destroy`; false when it had ended already. */
  async end(options: CallOptions = {}): Promise<boolean> {
    const answer = await this.#http.json<{ destroyed: boolean }>('DELETE', this.#path, options)
    return answer.destroyed
  }

  // Programs

  /** A program with its arguments, no shell between; stdout and stderr apart. */
  async run(cmd: string, options: RunOptions = {}): Promise<RunResult> {
    const { timeoutMs, signal } = options
    const json = runBody(cmd, options)
    if ((timeoutMs ?? 0) <= longMs) return commandResult(await this.#post('/run', { json, signal }))
    const command = await this.#stream('/run', json, undefined, signal)
    return untilAborted(command, signal, () => command.wait<RunResult>({ signal }))
  }

  /** Starts a program and returns as soon as it runs. With an `execId` that was used, the program of the first call. */
  async start(
    cmd: string,
    options: StartOptions & { extra?: Record<string, unknown> } = {},
  ): Promise<Command> {
    const { execId, stdinOpen, detach = true, outputBufferBytes, signal, extra } = options
    const json = {
      ...runBody(cmd, options),
      ...snake({ stdinOpen, detach, outputBufferBytes }),
      ...extra,
    }
    return this.#stream('/run', json, execId, signal)
  }

  /** A command that carries this id, here or started by somebody else. Makes no request. */
  command(execId: string): Command {
    return new Command(this.#http, this.#path, execId)
  }

  /** Those that carry an id, newest first. */
  async listCommands(options: CallOptions & { limit?: number } = {}): Promise<CommandInfo[]> {
    const { limit, signal } = options
    const answer = await this.#http.json<{ execs: [] }>('GET', `${this.#path}/execs`, {
      query: { limit },
      signal,
    })
    return answer.execs.map(commandInfo)
  }

  // Shells and terminals

  async openShell(
    name: string,
    options: CallOptions & { cwd?: string; env?: Readonly<Record<string, string>>; login?: boolean } = {},
  ): Promise<ShellInfo> {
    const { signal, ...rest } = options
    return this.#post('/shells', { json: { name, ...rest }, signal })
  }

  async listShells(options: CallOptions = {}): Promise<ShellInfo[]> {
    return (await this.#http.json<{ shells: ShellInfo[] }>('GET', `${this.#path}/shells`, options)).shells
  }

  /** False when it was closed already. */
  async closeShell(name: string, options: CallOptions = {}): Promise<boolean> {
    const path = `${this.#path}/shells/${segment(name, 'shell')}`
    try {
      const headers = this.#headers()
      return (await this.#http.json<{ closed: boolean }>('DELETE', path, { ...options, headers })).closed
    } catch (error) {
      if (SandboxError.is(error, 'not_found') && error.details.status === undefined) return false
      throw error
    }
  }

  /** An id that is open already is found again. */
  async openTerminal(
    options: CallOptions & {
      terminalId?: string
      cmd?: string
      args?: readonly string[]
      env?: Readonly<Record<string, string>>
      cwd?: string
      cols?: number
      rows?: number
    } = {},
  ): Promise<SessionTerminal> {
    const { signal, ...rest } = options
    const { terminal_id: id } = await this.#post<{ terminal_id: string }>('/terminals', {
      json: snake(rest),
      signal,
    })
    return this.terminal(id)
  }

  /** One that was opened. Makes no request. */
  terminal(terminalId: string): SessionTerminal {
    return new SessionTerminal(this.#http, this.#path, terminalId)
  }

  // Its life

  /** As it is now. Looking does not put off its end. */
  async info(options: CallOptions = {}): Promise<SessionInfo> {
    return sessionInfo(await this.#http.json('GET', this.#path, options))
  }

  /** Starts it if it is stopped; this object then means the new start. */
  startAgain(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('start', options)
  }

  /** Ends all that runs in it and keeps its disk. */
  stop(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('stop', options)
  }

  pause(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('pause', options)
  }

  resume(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('resume', options)
  }

  /** From now on it lives at least this long. Never shortens. */
  async extend(ttlSeconds: number, options: CallOptions = {}): Promise<SessionInfo> {
    const json = { ttl_seconds: ttlSeconds }
    return sessionInfo(await this.#post('/extend', { json, signal: options.signal }))
  }

  /** Changes labels: those that are given; null takes one away. */
  async setLabels(
    labels: Readonly<Record<string, string | null>>,
    options: CallOptions = {},
  ): Promise<SessionInfo> {
    return sessionInfo(
      await this.#http.json('PATCH', this.#path, { json: { labels }, signal: options.signal }),
    )
  }

  async snapshot(options: CallOptions & { name?: string } = {}): Promise<SnapshotInfo> {
    const { signal, name } = options
    return snapshotInfo(await this.#post('/snapshots', { json: { name }, signal }))
  }

  /** Lets visitors reach a port inside. Opening it again changes nothing but what is given. */
  async openPort(
    port: number,
    options: CallOptions & {
      visibility?: 'private' | 'token' | 'public'
      wakeOnVisit?: boolean
      rotate?: boolean
    } = {},
  ): Promise<PortInfo> {
    const { signal, visibility, wakeOnVisit: wake_on_visit, rotate } = options
    return portInfo(await this.#post('/ports', { json: { port, visibility, wake_on_visit, rotate }, signal }))
  }

  /** What a visitor of a port that is not public sends with each request. It is not passed on to the sandbox. */
  get visitorHeaders(): Record<string, string> {
    return this.#http.visitorHeaders
  }

  /** Running copies; one that could not be made is its problem, in its place. */
  async fork(
    options: CallOptions & { count?: number } = {},
  ): Promise<Array<{ session: Session; info: SessionInfo } | SandboxError>> {
    const { signal, count } = options
    const answer = await this.#post<{ sessions: Array<Record<string, unknown>> }>('/fork', {
      json: { count },
      signal,
    })
    return answer.sessions.map((wire) => {
      if ('code' in wire) return errorOf(wire, Number(wire.status))
      const info = sessionInfo(wire)
      return { session: new Session(this.#http, info.id), info }
    })
  }

  /** What its sandbox uses now. What is not counted is absent. */
  async stats(options: CallOptions = {}): Promise<Record<string, number>> {
    return camel(await this.#http.json('GET', `${this.#path}/stats`, options))
  }

  /** What happens to it, from an event on. */
  async *events(options: CallOptions & { after?: number } = {}): AsyncGenerator<SessionEvent> {
    const { after, signal } = options
    const response = await this.#http.send('GET', `${this.#path}/events`, { query: { after }, signal })
    for await (const { event, id, data } of serverEvents(response, signal)) {
      const { session_id, created_at, ...rest } = data
      yield sessionEvent({ id, type: event, session_id, data: rest, created_at })
    }
  }

  async #turn(verb: string, options: CallOptions): Promise<SessionInfo> {
    const info = sessionInfo(
      await this.#http.json('POST', `${this.#path}/${verb}`, {
        json: {},
        signal: options.signal,
        // Starting it again is what makes a new one; from then on we mean that.
        ...(verb === 'start' ? {} : { headers: this.#headers() }),
      }),
    )
    if (verb === 'start' && this.#bound !== undefined) this.#bound = info.incarnation
    return info
  }

  /** A command with an id, started; its answer is kept for who reads it first. */
  async #stream(route: string, json: object, execId = randomId(), signal?: AbortSignal): Promise<Command> {
    const body = { ...json, exec_id: execId, stream: true }
    const headers = { ...this.#headers(), accept: 'text/event-stream' }
    try {
      const response = await this.#http.send('POST', `${this.#path}${route}`, { json: body, headers })
      const command = new Command(this.#http, this.#path, execId, response)
      if (!signal?.aborted) return command
      await command.signal('SIGKILL').catch(() => {})
    } catch (error) {
      if (!signal?.aborted) throw error
    }
    throw abortedError(signal!, 'Starting the command')
  }

  #post<T = Record<string, unknown>>(route: string, options: RequestOptions): Promise<T> {
    return this.#http.json<T>('POST', `${this.#path}${route}`, { ...options, headers: this.#headers() })
  }

  #headers(): Record<string, string> {
    return this.#bound === undefined ? {} : { 'sandkasten-incarnation': String(this.#bound) }
  }
}

function runBody(cmd: string, options: RunOptions): Record<string, unknown> {
  const { args, env, cwd, timeoutMs, stdin, maxOutputBytes } = options
  return {
    cmd,
    ...snake({ args, env, cwd, timeoutMs, maxOutputBytes }),
    ...(stdin === undefined ? {} : { stdin_base64: base64(encode(stdin)) }),
  }
}

/** The work on a command; when it is cancelled, the command is ended before the call rejects. */
async function untilAborted<T>(
  command: Command,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (signal?.aborted) await command.signal('SIGKILL').catch(() => {})
    throw error
  }
}

import { SandboxError } from '../errors.ts'
import { abortedError } from '../shared/calls/abort.ts'
import { randomId } from '../shared/ids.ts'
import { checkKnown } from '../shared/known-options.ts'
import { concat, encode } from '../shared/output/bytes.ts'
import { withOutput } from '../shared/output/partial.ts'
import type { BytesSource, CallOptions, Environment, Network } from '../spec/index.ts'
import { Command } from './command.ts'
import { type EgressEvent, type EgressEventsOptions, egressEvents } from './egress.ts'
import { SessionFiles } from './files.ts'
import { type Http, type RequestOptions, segment } from './http.ts'
import { execOptions, runOptions, startOptions } from './known-options.ts'
import { networkBody } from './network-wire.ts'
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

/** Longer commands are streamed, because fetch gives up when a response does not start within five minutes. */
const longMs = 240_000

/**
 * One session. An agent needs `exec`, `write`, `read` and `destroy`. With `bound`, every call fails with `interrupted`
 * after the session was restarted.
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

  /** The incarnation that this object refers to; undefined: the current one. */
  get bound(): number | undefined {
    return this.#bound
  }

  /**
   * Runs a command in the session's shell, which keeps its directory, variables, functions and background jobs. The
   * error of a cancelled command has its output so far in `details.output`.
   */
  async exec(cmd: string, options: ExecOptions = {}): Promise<ExecResult> {
    checkKnown(options, execOptions, 'exec()')
    const { timeoutMs, shell, onOutput, maxOutputBytes, execId, signal } = options
    const json = { cmd, ...snake({ timeoutMs, shell, maxOutputBytes }) }
    if (!onOutput && !signal && execId === undefined && (timeoutMs ?? 0) <= longMs)
      return commandResult(await this.#post('/exec', { json }))
    const command = await this.#stream('/exec', json, execId, signal)
    return untilAborted(command, signal, { output: '' }, () => command.wait<ExecResult>({ ...options }))
  }

  async write(path: string, content: string | Uint8Array | BytesSource): Promise<void> {
    await this.files.write(path, content)
  }

  /** Reads the whole file, or its first `maxBytes`. */
  async read(path: string, opts: { maxBytes?: number } = {}): Promise<Uint8Array> {
    const chunks: Uint8Array[] = []
    const { maxBytes } = opts
    for await (const chunk of await this.files.readChunks(path, { end: maxBytes })) chunks.push(chunk)
    return concat(chunks)
  }

  /** Destroys the session and its disk. */
  async destroy(options: CallOptions = {}): Promise<void> {
    await this.end(options)
  }

  /** Like `destroy`; false when the session has already ended. */
  async end(options: CallOptions = {}): Promise<boolean> {
    const answer = await this.#http.json<{ destroyed: boolean }>('DELETE', this.#path, options)
    return answer.destroyed
  }

  // Programs

  /**
   * Runs a program without a shell; stdout and stderr are separate. The error of a cancelled program has its output so
   * far in `details.stdout` and `details.stderr`.
   */
  async run(cmd: string, options: RunOptions = {}): Promise<RunResult> {
    checkKnown(options, runOptions, 'run()')
    const { timeoutMs, signal } = options
    const json = runBody(cmd, options)
    if (!signal && (timeoutMs ?? 0) <= longMs) return commandResult(await this.#post('/run', { json }))
    const command = await this.#stream('/run', json, undefined, signal)
    const none = { stdout: '', stderr: '' }
    return untilAborted(command, signal, none, () => command.wait<RunResult>({ signal }))
  }

  /** Starts a program and resolves when it runs. If the `execId` was used before, returns that program. */
  async start(
    cmd: string,
    options: StartOptions & { extra?: Record<string, unknown> } = {},
  ): Promise<Command> {
    checkKnown(options, startOptions, 'start()')
    const { execId, stdinOpen, detach = true, outputBufferBytes, signal, extra } = options
    const json = {
      ...runBody(cmd, options),
      ...snake({ stdinOpen, detach, outputBufferBytes }),
      ...extra,
    }
    return this.#stream('/run', json, execId, signal)
  }

  /** The command with this id, whichever client started it. Makes no request. */
  command(execId: string): Command {
    return new Command(this.#http, this.#path, execId)
  }

  /** Commands with an id, newest first. */
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
    options: CallOptions & { cwd?: string; env?: Environment; login?: boolean } = {},
  ): Promise<ShellInfo> {
    const { signal, ...rest } = options
    return this.#post('/shells', { json: { name, ...rest }, signal })
  }

  async listShells(options: CallOptions = {}): Promise<ShellInfo[]> {
    return (await this.#http.json<{ shells: ShellInfo[] }>('GET', `${this.#path}/shells`, options)).shells
  }

  /** False when the shell is already closed. */
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

  /** If a terminal with this id is open, returns that terminal. */
  async openTerminal(
    options: CallOptions & {
      terminalId?: string
      cmd?: string
      args?: readonly string[]
      env?: Environment
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

  /** The terminal with this id. Makes no request. */
  terminal(terminalId: string): SessionTerminal {
    return new SessionTerminal(this.#http, this.#path, terminalId)
  }

  // Lifecycle

  /** The current info. Does not extend the lease. */
  async info(options: CallOptions = {}): Promise<SessionInfo> {
    return sessionInfo(await this.#http.json('GET', this.#path, options))
  }

  /** Starts a stopped session. This object then refers to the new incarnation. */
  startAgain(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('start', options)
  }

  /** Stops everything that runs in the session and keeps its disk. */
  stop(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('stop', options)
  }

  pause(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('pause', options)
  }

  resume(options: CallOptions = {}): Promise<SessionInfo> {
    return this.#turn('resume', options)
  }

  /** Extends the lease to at least this time from now. Never shortens it. */
  async extend(ttlSeconds: number, options: CallOptions = {}): Promise<SessionInfo> {
    const json = { ttl_seconds: ttlSeconds }
    return sessionInfo(await this.#post('/extend', { json, signal: options.signal }))
  }

  /** Sets the given labels; null removes a label. */
  async setLabels(
    labels: Readonly<Record<string, string | null>>,
    options: CallOptions = {},
  ): Promise<SessionInfo> {
    return sessionInfo(
      await this.#http.json('PATCH', this.#path, { json: { labels }, signal: options.signal }),
    )
  }

  /** Replaces the whole network at once. Connections that it no longer allows are closed. */
  async setNetwork(network: Network, options: CallOptions = {}): Promise<SessionInfo> {
    const request = { json: networkBody(network), signal: options.signal, headers: this.#headers() }
    return sessionInfo(await this.#http.json('PUT', `${this.#path}/network`, request))
  }

  /**
   * What the session reached, and what it was refused, oldest first. Old events are dropped: a gap in `seq` shows how
   * many.
   */
  egressEvents(options: EgressEventsOptions = {}): AsyncGenerator<EgressEvent> {
    return egressEvents(this.#http, `${this.#path}/egress`, options)
  }

  async snapshot(options: CallOptions & { name?: string } = {}): Promise<SnapshotInfo> {
    const { signal, name } = options
    return snapshotInfo(await this.#post('/snapshots', { json: { name }, signal }))
  }

  /** Opens a port of the sandbox for visitors. Opening it again changes only the given options. */
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

  /** The headers that a visitor of a non-public port sends. The daemon does not pass them on to the sandbox. */
  get visitorHeaders(): Record<string, string> {
    return this.#http.visitorHeaders
  }

  /** Creates running copies. A copy that failed is a SandboxError at its position. */
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

  /** The sandbox's current resource use. Unknown values are absent. */
  async stats(options: CallOptions = {}): Promise<Record<string, number>> {
    return camel(await this.#http.json('GET', `${this.#path}/stats`, options))
  }

  /** Events of the session after the event number `after`. */
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
        // A start creates a new incarnation, so it must not be bound to the old one.
        headers: verb === 'start' ? undefined : this.#headers(),
      }),
    )
    if (verb === 'start' && this.#bound !== undefined) this.#bound = info.incarnation
    return info
  }

  /** Starts a command with an id and keeps the response for the first reader. */
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
  const { args, env, cwd, timeoutMs, stdin, maxOutputBytes, output } = options
  return {
    cmd,
    ...snake({ args, env, cwd, timeoutMs, maxOutputBytes, output }),
    stdin_base64: stdin === undefined ? undefined : base64(encode(stdin)),
  }
}

/** Runs `work`; when it is cancelled, kills the command before rejecting. `none`: the details without any output. */
async function untilAborted<T>(
  command: Command,
  signal: AbortSignal | undefined,
  none: Readonly<Record<string, string>>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (signal?.aborted) await command.signal('SIGKILL').catch(() => {})
    throw SandboxError.is(error) ? withOutput(error, { ...none, ...error.details }) : error
  }
}

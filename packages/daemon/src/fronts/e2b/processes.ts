import { randomInt } from 'node:crypto'
import { type ProcessEvent, type ProcessExit, SandboxError, type SandboxTerminal } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import type { Command } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { outputOf, wholeOutput } from '../shared/output.ts'
import { ifMissing } from '../shared/request.ts'
import { base64, type Call, type ConnectService, type Message, part, text, within } from './envd/connect.ts'
import { endOf } from './envd/exit-events.ts'
import { sandboxGone } from './refusal.ts'

const tagKind = 'tag'
const prefix = 'e2b-'

/**
 * `process.Process`. A process is a command of the session or one of its terminals. Its pid for E2B is our own number,
 * larger than any pid of the kernel, so a `kill` inside the sandbox cannot hit another process. Processes outlive the
 * request that started them, and this daemon.
 */
export class Processes {
  readonly #place: FrontPlace

  constructor(place: FrontPlace) {
    this.#place = place
  }

  register(service: ConnectService): void {
    const path = (method: string) => `/process.Process/${method}`
    const keepalive = { event: { keepalive: {} } }
    service.stream(path('Start'), 'exec', keepalive, (call) => this.#start(call))
    service.stream(path('Connect'), 'exec', keepalive, (call) => this.#connect(call))
    service.unary(path('List'), 'read', (call) => this.#list(call))
    service.unary(path('SendSignal'), 'exec', (call) => this.#signal(call))
    service.unary(path('SendInput'), 'exec', (call) => this.#input(call))
    service.unary(path('CloseStdin'), 'exec', (call) => this.#closeStdin(call))
    service.unary(path('Update'), 'exec', (call) => this.#update(call))
  }

  async *#start(call: Call): AsyncGenerator<object> {
    const { sessions } = this.#place.services
    const { caller, session, message, deadlineMs } = call
    const config = part(message, 'process') ?? {}
    const size = part(part(message, 'pty') ?? {}, 'size')
    const command = {
      cmd: text(config, 'cmd'),
      args: strings(config.args),
      env: variables(part(config, 'envs')),
      cwd: typeof config.cwd === 'string' && config.cwd !== '' ? config.cwd : undefined,
    }
    const pid = newPid()
    const execId = idOf(pid)
    if (part(message, 'pty')) {
      const options = { terminalId: execId, ...command, ...sizeOf(size) }
      await sessions.terminals.open(caller, session.id, options)
      await this.#tag(call, pid)
      yield { event: { start: { pid } } }
      yield* this.#terminal(call, execId, true)
      return
    }
    const found = await sessions.commands.start(caller, session.id, execId, {
      kind: 'run',
      ...command,
      // Older clients do not send this field and expect an open stdin.
      stdin: message.stdin === false ? undefined : ('pipe' as const),
      timeoutMs: deadlineMs,
      detached: true,
      // Events carry the output, so the result does not repeat it.
      maxOutputBytes: 1,
    })
    await this.#tag(call, pid)
    yield { event: { start: { pid } } }
    yield* this.#events(call, found)
  }

  async *#connect(call: Call): AsyncGenerator<object> {
    const { sessions } = this.#place.services
    const execId = await this.#chosen(call)
    const pid = pidOf(execId)
    const found = await sessions.commands.find(call.caller, call.session.id, execId).catch(ifMissing)
    if (!found) await sessions.terminals.find(call.caller, call.session.id, execId).catch(notFound(pid))
    yield { event: { start: { pid } } }
    yield* within(call, (signal) =>
      found ? this.#events({ ...call, signal }, found) : this.#terminal({ ...call, signal }, execId, false),
    )
  }

  async *#events(call: Call, found: Command): AsyncGenerator<object> {
    for await (const event of outputOf(found, call.signal)) {
      if (event.type === 'exit') return void (yield ended(event))
      yield { event: { data: { [event.type]: encoded(event) } } }
    }
    throw sandboxGone(call.session.id, 'The sandbox ended before the process did')
  }

  async *#terminal(call: Call, execId: string, own: boolean): AsyncGenerator<object> {
    const { terminals } = this.#place.services.sessions
    const { session, deadlineMs, signal } = call
    let terminal: SandboxTerminal | undefined
    let timer: NodeJS.Timeout | undefined
    try {
      const attached = await this.#attached(call, execId, async (one) => one)
      terminal = attached
      // The deadline of the creating request is also the terminal's.
      if (own && deadlineMs !== undefined)
        timer = setTimeout(() => void attached.kill('SIGKILL').catch(() => {}), deadlineMs).unref()
      for await (const event of wholeOutput((after) => attached.output({ after, signal }), signal)) {
        if (event.type !== 'exit') {
          yield { event: { data: { pty: encoded(event) } } }
          continue
        }
        clearTimeout(timer)
        await terminals.ended(session.id, execId, event)
        return void (yield ended(event))
      }
    } catch (error) {
      // A terminal that existed a moment ago is missing only if its sandbox ended.
      if (!(own || terminal) || !SandboxError.is(error, 'not_found', 'not_running', 'interrupted'))
        throw error
    }
    throw sandboxGone(session.id, 'The sandbox ended before the process did')
  }

  async #list({ caller, session }: Call): Promise<object> {
    const { sessions } = this.#place.services
    const rows = [
      ...(await sessions.commands.list(caller, session.id, 1000)),
      ...(await sessions.terminals.list(caller, session.id)),
    ]
    const tags = new Map((await this.#tags(caller, session.id)).map(({ pid, tag }) => [pid, tag]))
    return {
      processes: rows
        .filter(
          ({ exec_id, status, incarnation }) =>
            exec_id.startsWith(prefix) && status === 'running' && incarnation === session.incarnation,
        )
        .map((row) => {
          const pid = pidOf(row.exec_id)
          const tag = tags.get(pid)
          return { pid, config: configOf(JSON.parse(row.command)), tag }
        }),
    }
  }

  async #signal(call: Call): Promise<object> {
    const signal = signals[String(call.message.signal)]
    if (!signal)
      throw new SandboxError('invalid_argument', 'signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL.')
    const execId = await this.#chosen(call)
    const found = await this.#command(call, execId)
    const sent = found
      ? found.state === 'live' && (await found.kill(signal))
      : await this.#attached(call, execId, (terminal) => terminal.kill(signal))
    if (!sent) notFound(pidOf(execId))()
    return {}
  }

  async #input(call: Call): Promise<object> {
    const input = part(call.message, 'input') ?? {}
    const execId = await this.#chosen(call)
    const keys = base64(input, 'pty')
    if (keys) {
      await this.#attached(call, execId, (terminal) => terminal.write(keys))
      return {}
    }
    const found = await this.#command(call, execId)
    if (!found || found.state === 'stored') return notFound(pidOf(execId))()
    await found.write!(base64(input, 'stdin') ?? new Uint8Array())
    return {}
  }

  async #closeStdin(call: Call): Promise<object> {
    const execId = await this.#chosen(call)
    const found = await this.#command(call, execId)
    if (!found || found.state === 'stored') return notFound(pidOf(execId))()
    await found.closeStdin!()
    return {}
  }

  async #update(call: Call): Promise<object> {
    const size = sizeOf(part(part(call.message, 'pty') ?? {}, 'size'))
    const execId = await this.#chosen(call)
    if (size) await this.#attached(call, execId, (terminal) => terminal.resize(size))
    return {}
  }

  #command({ caller, session }: Call, execId: string): Promise<Command | undefined> {
    return this.#place.services.sessions.commands.find(caller, session.id, execId).catch(ifMissing)
  }

  #attached<T>(
    { caller, session }: Call,
    execId: string,
    work: (terminal: SandboxTerminal) => Promise<T>,
  ): Promise<T> {
    const { terminals } = this.#place.services.sessions
    return terminals.attach(caller, session.id, execId, work).catch((error: unknown) => {
      if (SandboxError.is(error, 'gone')) return notFound(pidOf(execId))()
      throw error
    })
  }

  /** Finds the selected process by its pid or its tag. */
  async #chosen({ caller, session, message }: Call): Promise<string> {
    const selector = part(message, 'process') ?? {}
    if (typeof selector.tag === 'string') {
      const tagged = (await this.#tags(caller, session.id)).find(({ tag }) => tag === selector.tag)
      if (tagged) return idOf(tagged.pid)
      throw new SandboxError('not_found', `There is no process with the tag ${selector.tag}.`)
    }
    if (typeof selector.pid === 'number') return idOf(selector.pid)
    throw new SandboxError('invalid_argument', 'process must name a pid or a tag.')
  }

  async #tag({ caller, session, message }: Call, pid: number): Promise<void> {
    if (typeof message.tag !== 'string' || message.tag === '') return
    const key = `${session.id} ${pid}`
    await this.#place.records.append(caller.projectId, tagKind, key, message.tag, session.id)
  }

  async #tags({ projectId }: Caller, sessionId: string): Promise<Array<{ pid: number; tag: string }>> {
    const rows = await this.#place.records.list<string>(projectId, tagKind, { sessionId })
    return rows.map(({ key, data }) => ({ pid: Number(key.split(' ')[1]), tag: data }))
  }
}

const signals: Readonly<Record<string, 'SIGTERM' | 'SIGKILL'>> = {
  SIGNAL_SIGTERM: 'SIGTERM',
  SIGNAL_SIGKILL: 'SIGKILL',
  15: 'SIGTERM',
  9: 'SIGKILL',
}

/** Above 4 194 304, the largest pid of Linux. */
function newPid(): number {
  return randomInt(4_194_305, 2 ** 31)
}

function idOf(pid: number): string {
  return `${prefix}${pid}`
}

function pidOf(execId: string): number {
  return Number(execId.slice(prefix.length))
}

function ended(exit: ProcessExit): object {
  if (exit.timedOut) throw new SandboxError('timeout', 'The deadline has passed, and the process was killed.')
  return { event: { end: endOf(exit) } }
}

function encoded({ data }: Exclude<ProcessEvent, { type: 'exit' }>): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')
}

function configOf(command: unknown): object {
  const [cmd = '', ...args] = Array.isArray(command)
    ? (command as string[])
    : [(command as { cmd?: string }).cmd, ...((command as { args?: string[] }).args ?? [])]
  return { cmd, args, envs: {} }
}

function strings(value: unknown): string[] {
  if (value === undefined) return []
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new SandboxError('invalid_argument', 'args must be strings.')
}

function variables(envs: Message | undefined): Record<string, string> {
  const all = Object.entries(envs ?? {})
  if (all.every(([, value]) => typeof value === 'string'))
    return Object.fromEntries(all) as Record<string, string>
  throw new SandboxError('invalid_argument', 'envs must be strings.')
}

function sizeOf(size: Message | undefined): { cols: number; rows: number } | undefined {
  if (!size) return undefined
  return { cols: Number(size.cols ?? 80) || 80, rows: Number(size.rows ?? 24) || 24 }
}

function notFound(pid: number): () => never {
  return () => {
    throw new SandboxError('not_found', `There is no running process ${pid}.`)
  }
}

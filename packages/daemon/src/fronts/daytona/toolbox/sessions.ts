import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { HeadTail } from '@sandkasten/sdk/provider'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import { accountOf } from '../../../http/response-memory.ts'
import { drained } from '../../../http/websockets.ts'
import { fitTexts, type Used } from '../../../sessions/index.ts'
import type { FrontPlace } from '../../front.ts'
import { notSupported, parsed } from '../../shared/request.ts'
import { type Call, type Entry, using } from '../entry.ts'
import {
  type CommandOutput,
  mostCommands,
  type SessionCommand,
  type SessionFacts,
  ShellSession,
} from './shell-session.ts'

const sessionBody = z.object({ sessionId: z.string().min(1).max(200) })
const execBody = z.object({
  command: z.string().min(1),
  runAsync: z.boolean().optional(),
  async: z.boolean().optional(),
  suppressInputEcho: z.boolean().optional(),
})
const inputBody = z.object({ data: z.string() })

const kind = 'process-session'

/** The record lists the last commands, each cut to this length. */
const commandChars = 1000

interface SessionRecord extends SessionFacts {
  readonly sandboxId: string
  readonly sessionId: string
  readonly incarnation: number
  readonly commands: ReadonlyArray<{ id: string; command: string }>
}

/** Identifies a command of a session, for requests and for WebSockets. */
export interface CommandAddress {
  readonly sessionId: string
  readonly execId: string
}

export interface FoundCommand {
  readonly command: SessionCommand
  readonly session: ShellSession
}

/** Sessions of the toolbox, by sandbox, incarnation and the client's name. They are found again after a restart. */
export class ToolboxSessions {
  readonly #place: FrontPlace
  readonly #open = new Map<string, Promise<ShellSession>>()

  constructor(place: FrontPlace) {
    this.#place = place
  }

  register(entry: Entry): void {
    const at = '/toolbox/:id/process/session'
    entry.add('POST', at, 'exec', (call) => this.#create(call), { status: 201 })
    entry.add('GET', at, 'read', (call) => using(call, (used) => this.#list(used)))
    for (const path of ['entrypoint', 'entrypoint/logs'])
      entry.add('GET', `${at}/${path}`, 'read', async () => {
        throw notSupported('The entrypoint’s session')
      })
    entry.add('GET', `${at}/:sid`, 'read', (call) =>
      using(call, async (used) => this.#view(await this.#record(used, call.params.sid!), used)),
    )
    entry.add('DELETE', `${at}/:sid`, 'exec', (call) => this.#delete(call), { status: 204 })
    entry.add('POST', `${at}/:sid/exec`, 'exec', (call) => this.#execute(call))
    entry.add('GET', `${at}/:sid/command/:cid`, 'read', (call) =>
      using(call, async (used) => commandView((await this.command(used, addressOf(call))).command)),
    )
    entry.add('GET', `${at}/:sid/command/:cid/logs`, 'read', (call) =>
      using(call, async (used) => outputSoFar(call, await this.command(used, addressOf(call)))),
    )
    entry.add('POST', `${at}/:sid/command/:cid/input`, 'exec', (call) => this.#input(call), { status: 204 })
  }

  /** The command, running or ended, and its session. */
  async command(used: Used, { sessionId, execId }: CommandAddress): Promise<FoundCommand> {
    const session = await this.#session(used, await this.#record(used, sessionId))
    const command = session.get(execId)
    if (command) return { command, session }
    throw new SandboxError('not_found', 'command not found', {
      details: { daytonaCode: 'PROCESS_NOT_FOUND' },
    })
  }

  /** Stops following all sessions; they keep running. */
  async close(): Promise<void> {
    for (const session of this.#open.values()) await session.then((open) => open.close()).catch(() => {})
    this.#open.clear()
  }

  async #create(call: Call): Promise<void> {
    const { sessionId } = parsed(sessionBody, call.body)
    await using(call, async (used) => {
      const { id, incarnation, project_id: project } = used.session
      const word = createHash('sha256').update(sessionId).digest('hex').slice(0, 24)
      const record: SessionRecord = {
        sandboxId: id,
        sessionId,
        incarnation,
        processId: `daytona-${word}-${randomBytes(4).toString('hex')}`,
        nonce: randomBytes(16).toString('hex'),
        folder: `/tmp/.daytona-${word}`,
        commands: [],
      }
      if (!(await this.#place.records.insert(project, kind, keyOf(id, sessionId), record, id))) {
        const known = await this.#known(used, sessionId)
        if (known) throw new SandboxError('conflict', 'session already exists')
        await this.#save(used, record)
      }
      try {
        await this.#keep(record, ShellSession.start(used.sandbox, record))
      } catch (error) {
        this.#open.delete(record.processId)
        await this.#place.records.delete(project, kind, keyOf(id, sessionId))
        throw error
      }
    })
  }

  async #list(used: Used) {
    const { id, project_id: project, incarnation } = used.session
    const all = await this.#place.records.list<SessionRecord>(project, kind)
    const own = all.filter(({ data }) => data.sandboxId === id && data.incarnation === incarnation)
    return Promise.all(own.map(({ data }) => this.#view(data, used)))
  }

  async #delete(call: Call): Promise<void> {
    await using(call, async (used) => {
      const record = await this.#record(used, call.params.sid!)
      await (await this.#session(used, record)).kill()
      this.#open.delete(record.processId)
      const { id, project_id: project } = used.session
      await this.#place.records.delete(project, kind, keyOf(id, record.sessionId))
    })
  }

  async #execute(call: Call) {
    const body = parsed(execBody, call.body)
    const runAsync = body.runAsync ?? body.async ?? false
    const cmdId = randomUUID()
    const collected = runAsync ? undefined : new CollectedOutput(call)
    return using(call, async (used) => {
      const { sessions } = this.#place.services
      const found = await sessions.locked(`${used.session.id} daytona ${call.params.sid}`, async () => {
        const record = await this.#record(used, call.params.sid!)
        const session = await this.#session(used, record)
        // Write the record first, so that the command is known after a restart.
        await this.#save(used, {
          ...record,
          commands: [...record.commands, { id: cmdId, command: body.command.slice(0, commandChars) }].slice(
            -mostCommands,
          ),
        })
        const onOutput = collected && ((output: CommandOutput) => collected.push(output))
        return { session, command: await session.run(cmdId, body.command, { input: runAsync, onOutput }) }
      })
      if (!collected) {
        call.reply.code(202)
        return { cmdId }
      }
      try {
        await found.session.ended(found.command, call.signal)
      } finally {
        found.command.onOutput = undefined
      }
      call.signal.throwIfAborted()
      return { cmdId, exitCode: found.command.exitCode ?? -1, ...(await collected.texts()) }
    })
  }

  async #input(call: Call): Promise<void> {
    const { data } = parsed(inputBody, call.body)
    await using(call, async (used) => {
      const { command, session } = await this.command(used, addressOf(call))
      // The command may still wait for earlier ones of its session.
      await session.begun(command, AbortSignal.any([call.signal, AbortSignal.timeout(beginMs)]))
      if (command.exitCode !== undefined)
        throw new SandboxError('stdin_closed', 'the command has completed', {
          details: { daytonaCode: 'COMMAND_ALREADY_COMPLETED' },
        })
      const { exitCode } = await used.sandbox.runCommand({
        cmd: '/bin/sh',
        args: ['-c', 'test -p "$0" && exec cat >"$0"', session.inputFile(command.id)],
        stdin: data,
        timeoutMs: 10_000,
        signal: call.signal,
      })
      if (exitCode !== 0)
        throw new SandboxError(
          'conflict',
          command.from === undefined
            ? 'the command has not begun: others of its session run before it'
            : 'the command takes no input: start it with runAsync',
        )
    })
  }

  /** Returns the open session, or recovers it. */
  #session(used: Used, record: SessionRecord): Promise<ShellSession> {
    const open = this.#open.get(record.processId)
    return open ?? this.#keep(record, ShellSession.find(used.sandbox, record, record.commands))
  }

  /** Keeps the session while its shell lives. An ended session can be recovered from the sandbox. */
  #keep({ processId }: SessionRecord, opening: Promise<ShellSession>): Promise<ShellSession> {
    this.#open.set(processId, opening)
    const forget = () => {
      if (this.#open.get(processId) === opening) this.#open.delete(processId)
    }
    void opening.then((session) => session.over).then(forget, forget)
    return opening
  }

  async #record(used: Used, sessionId: string): Promise<SessionRecord> {
    const known = await this.#known(used, sessionId)
    if (known) return known
    throw new SandboxError('not_found', 'session not found')
  }

  /** Ignores records of an earlier start of the sandbox, because those sessions ended with it. */
  async #known(used: Used, sessionId: string): Promise<SessionRecord | undefined> {
    const { id, project_id: project, incarnation } = used.session
    const record = await this.#place.records.get<SessionRecord>(project, kind, keyOf(id, sessionId))
    return record?.incarnation === incarnation ? record : undefined
  }

  async #save(used: Used, record: SessionRecord): Promise<void> {
    const { id, project_id: project } = used.session
    await this.#place.records.put(project, kind, keyOf(id, record.sessionId), record, id)
  }

  async #view(record: SessionRecord, used: Used) {
    const session = await this.#session(used, record)
    return { sessionId: record.sessionId, commands: session.list().map(commandView) }
  }
}

/**
 * Sends output until the socket closes or the command ends. Three bytes before each chunk name its stream. The socket is
 * closed with 1000 when the command has ended; the client then asks for the exit code.
 */
export async function streamLogs(
  socket: WebSocket,
  { command, session }: FoundCommand,
  signal: AbortSignal,
): Promise<void> {
  for await (const { type, data } of session.output(command, signal)) {
    const mark = type === 'stdout' ? 1 : 2
    socket.send(Buffer.concat([Buffer.from([mark, mark, mark]), data]), { binary: true })
    await drained(socket, signal)
  }
  await session.ended(command, signal)
  if (command.exitCode !== undefined) return socket.close(1000, 'exit')
  throw new SandboxError('interrupted', 'the session has ended')
}

function keyOf(sandboxId: string, sessionId: string): string {
  return `${sandboxId}/${sessionId}`
}

function addressOf({ params }: Call): CommandAddress {
  return { sessionId: params.sid!, execId: params.cid! }
}

function commandView({ id, command, exitCode }: SessionCommand) {
  return { id, command, exitCode }
}

/** The output of a command that may still run. */
async function outputSoFar(call: Call, { command, session }: FoundCommand) {
  const { signal } = call
  const collected = new CollectedOutput(call)
  const enough =
    command.exitCode !== undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(lookMs)])
  try {
    for await (const output of session.output(command, enough)) collected.push(output)
  } catch (error) {
    if (signal.aborted || !enough.aborted) throw error
  }
  return collected.texts()
}

/** Output for a response, merged and by stream. The middle of a large output is cut. */
class CollectedOutput {
  readonly #mostBytes: number
  readonly #all: Three<HeadTail>

  constructor({ place, request, reply }: Call) {
    const { sessions, config } = place.services
    const account = accountOf(sessions.memory, request, reply)
    this.#mostBytes = config.max_result_mb * 1_048_576
    this.#all = [0, 0, 0].map(() => new HeadTail(this.#mostBytes, account)) as Three<HeadTail>
  }

  push({ type, data }: CommandOutput): void {
    const [merged, stdout, stderr] = this.#all
    merged.push(data)
    const stream = type === 'stdout' ? stdout : stderr
    stream.push(data)
  }

  async texts() {
    // The response holds the output twice: merged, and by stream.
    const texts = await fitTexts(this.#all.map((one) => one.text()) as Three<string>, 2 * this.#mostBytes)
    return { output: texts[0], stdout: texts[1], stderr: texts[2] }
  }
}

type Three<T> = [T, T, T]
const lookMs = 300
/** How long input waits for its command to begin. */
const beginMs = 10_000

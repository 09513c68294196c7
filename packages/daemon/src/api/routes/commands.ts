import { randomUUID } from 'node:crypto'
import {
  type CommandResult,
  type ProcessEvent,
  type ProcessSignal,
  SandboxError,
  type ShellResult,
} from '@sandkasten/sdk'
import { z } from 'zod'
import type { ServerEvent } from '../../http/event-streams.ts'
import { bodyChunks } from '../../http/request-body.ts'
import { accountOf } from '../../http/response-memory.ts'
import type { Services } from '../../http/services.ts'
import {
  type Command,
  type CommandRequest,
  checkArgv,
  checkEnv,
  type ExecResult,
  enterShell,
  fitMemory,
  type LiveCommand,
  mainShell,
  resultOf,
  shellOf,
} from '../../sessions/index.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Call, type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso, isoOrNull, runView, shellView } from '../views.ts'

const tag = 'commands'
const defaultOutputBytes = 4 * 1024 * 1024
type ExecRow = Command['row']

export function commandRoutes({ sessions, streams, config, metrics, patience }: Services): Route[] {
  const most = config.defaults.max_exec_timeout_ms
  const usual = Math.min(config.defaults.exec_timeout_ms, most)

  const timeoutOf = (given = usual): number => {
    if (given <= most) return given
    throw new SandboxError('invalid_argument', `timeout_ms exceeds the limit of ${most} ms.`, {
      details: { max_timeout_ms: most },
      hint: {
        sdk: 'Lower timeoutMs, start the command with { detached: true }, or raise defaults.max_exec_timeout_ms.',
        http: 'Lower timeout_ms, start it with run and detach: true, or raise defaults.max_exec_timeout_ms.',
        cli: 'Lower --timeout, start it with --detach, or raise defaults.max_exec_timeout_ms of the daemon.',
      },
    })
  }

  const maxResultBytes = config.max_result_mb * 1_048_576
  const account = ({ request, reply }: Call) => accountOf(sessions.memory, request, reply)
  const fit = <T extends CommandResult | ShellResult>(call: Call, result: T): Promise<T> =>
    fitMemory(account(call), result, maxResultBytes)
  const fitView = async (call: Call, row: ExecRow) => resultView(await fit(call, resultOf(row)), row.exec_id)
  const outputOptions = (call: Call, given: number | undefined) => ({
    maxOutputBytes: Math.min(given ?? defaultOutputBytes, maxResultBytes),
    outputBudget: account(call),
  })

  /** Starts or finds a command with an id. Waits for it, streams its events, or returns at once. */
  const tracked = async (
    call: Call<{ id: string }>,
    request: CommandRequest,
    given: { exec_id?: string; stream?: boolean; detach?: boolean; hold?: boolean },
  ) => {
    const execId = given.exec_id ?? randomUUID()
    const { caller, reply, signal, params } = call
    const found = await sessions.commands.start(
      caller,
      params.id,
      execId,
      request,
      incarnationOf(call.request),
    )
    if (given.detach && !wantsEvents(call, given.stream)) {
      reply.code(202)
      return execView(found.row)
    }
    const release = given.hold ? sessions.hold(params.id) : undefined
    try {
      if (wantsEvents(call, given.stream))
        return await streams.send(reply, (ending) => eventsOf(call, found, 0, ending), signal)
      const final = await ended(found, signal)
      return await fitView(call, final)
    } finally {
      release?.()
      // A command without an id ends with its request, because no client could find it again.
      const own = given.exec_id === undefined && !given.detach
      if (own && signal.aborted && found.state === 'live') await found.kill('SIGKILL').catch(() => {})
    }
  }

  const eventsOf = async function* (
    call: Call,
    found: Command,
    after: number,
    ending: AbortSignal,
  ): AsyncGenerator<ServerEvent> {
    const { row } = found
    yield { event: 'start', data: { exec_id: row.exec_id, kind: row.kind } }
    for await (const event of found.output(after, ending)) {
      if (event.type !== 'exit') yield outputEvent(row, event)
      else {
        const final = found.state === 'live' ? await found.done : row
        const result =
          final.status === 'done'
            ? await fitView(call, final)
            : { exec_id: row.exec_id, exit_code: event.exitCode }
        yield { event: 'exit', id: event.seq, data: { seq: event.seq, ...result } }
      }
    }
  }

  return [
    route({
      id: 'exec',
      method: 'POST',
      path: '/v1/sessions/{id}/exec',
      access: 'exec',
      tag,
      summary:
        'Run a command in the session’s shell. The directory, variables, functions and background jobs persist.',
      params: schemas.sessionParams,
      body: schemas.execBody,
      largeBody: true,
      answer: {
        description: 'The result, or events if you ask for them.',
        schema: schemas.execResult,
        types: ['text/event-stream'],
      },
      async handle(call) {
        const { caller, body, params, signal } = call
        const timeoutMs = timeoutOf(body.timeout_ms)
        const shell = body.shell ?? mainShell
        const { max_output_bytes: maxOutputBytes } = body
        if (body.exec_id !== undefined || wantsEvents(call, body.stream))
          return tracked(call, { kind: 'exec', command: body.cmd, shell, timeoutMs, maxOutputBytes }, body)
        metrics.count('sandkasten_commands_total', { kind: 'exec' })
        const options = { timeoutMs, signal, ...outputOptions(call, maxOutputBytes) }
        return sessions.use.use(
          caller,
          params.id,
          async ({ open, session }) => {
            const opened = await shellOf(open, shell)
            const leave = enterShell(open, shell, null, body.cmd)
            const result = await opened.exec(body.cmd, options).finally(leave)
            if (shell === mainShell) sessions.touch(session.id, result.cwd)
            return shellView(await fit(call, result))
          },
          incarnationOf(call.request),
        )
      },
    }),
    route({
      id: 'run',
      method: 'POST',
      path: '/v1/sessions/{id}/run',
      access: 'exec',
      tag,
      summary: 'Run a program without a shell. stdout and stderr stay separate unless `output` is `merged`.',
      params: schemas.sessionParams,
      body: schemas.runBody,
      largeBody: true,
      answer: {
        description: 'The result. With `detach`, 202 and the command. With `stream`, events.',
        schema: schemas.runResult,
        types: ['text/event-stream'],
      },
      async handle(call) {
        const { caller, body, params, signal } = call
        const { cmd, args = [], env, cwd, output } = body
        const command = { cmd, args, env, cwd, output }
        const maxOutputBytes = body.max_output_bytes
        const stdin = stdinOf(body)
        if (body.exec_id !== undefined || body.detach || body.stdin_open || wantsEvents(call, body.stream)) {
          const request: CommandRequest = {
            kind: 'run',
            ...command,
            timeoutMs: body.detach ? body.timeout_ms : timeoutOf(body.timeout_ms),
            stdin: body.stdin_open ? 'pipe' : stdin,
            detached: body.detach ?? false,
            maxOutputBytes,
            outputBufferBytes: body.output_buffer_bytes,
          }
          return tracked(call, request, body)
        }
        checkArgv(command.cmd, command.args)
        checkEnv(command.env)
        metrics.count('sandkasten_commands_total', { kind: 'run' })
        const timeoutMs = timeoutOf(body.timeout_ms)
        const options = { ...command, stdin, timeoutMs, signal, ...outputOptions(call, maxOutputBytes) }
        return sessions.use.use(
          caller,
          params.id,
          async ({ sandbox }) => runView(await fit(call, await sandbox.runCommand(options))),
          incarnationOf(call.request),
        )
      },
    }),
    route({
      id: 'listExecs',
      method: 'GET',
      path: '/v1/sessions/{id}/execs',
      access: 'read',
      tag,
      summary: 'List the session’s commands with an id, newest first.',
      params: schemas.sessionParams,
      query: z.strictObject({ limit: schemas.limit.optional() }),
      answer: { description: 'Commands.', schema: z.object({ execs: z.array(schemas.exec) }) },
      handle: async ({ caller, params, query }) => ({
        execs: (await sessions.commands.list(caller, params.id, query.limit ?? 100)).map(execView),
      }),
    }),
    route({
      id: 'getExec',
      method: 'GET',
      path: '/v1/sessions/{id}/execs/{exec_id}',
      access: 'read',
      tag,
      summary: 'Get a command with its status and its result.',
      params: schemas.execParams,
      query: z.strictObject({
        wait_ms: schemas.whole.optional().describe('How long to wait for the command to end.'),
      }),
      answer: { description: 'The command.', schema: schemas.exec },
      async handle({ caller, params, query, signal }) {
        const found = await sessions.commands.find(caller, params.id, params.exec_id)
        const waitMs = found.state === 'live' && Math.min(query.wait_ms ?? 0, 600_000)
        const ended = waitMs && (await Promise.race([found.done, after(waitMs, signal)]))
        return execView(ended || found.row)
      },
    }),
    route({
      id: 'execOutput',
      method: 'GET',
      path: '/v1/sessions/{id}/execs/{exec_id}/output',
      access: 'read',
      tag,
      summary:
        'Stream the output of a command as events (SSE), from the beginning or after an event. Returns 410 when these events were dropped. The stream is complete only if it ends with `exit`.',
      params: schemas.execParams,
      query: z.strictObject({ after: schemas.whole.optional() }),
      answer: { description: 'Events, numbered from 1 without gaps.', types: ['text/event-stream'] },
      async handle(call) {
        const { caller, params, query, request, reply, signal } = call
        const last = request.headers['last-event-id']
        const from = query.after ?? (typeof last === 'string' && /^\d{1,15}$/.test(last) ? Number(last) : 0)
        const found = await sessions.commands.find(caller, params.id, params.exec_id)
        return streams.send(reply, (ending) => withoutStart(eventsOf(call, found, from, ending)), signal)
      },
    }),
    route({
      id: 'writeStdin',
      method: 'POST',
      path: '/v1/sessions/{id}/execs/{exec_id}/stdin',
      access: 'exec',
      tag,
      summary:
        'Write to the stdin of a program that was started with stdin_open. `eof=true` closes stdin afterwards.',
      params: schemas.execParams,
      query: z.strictObject({ eof: schemas.flag.optional() }),
      body: 'stream',
      answer: { status: 204, description: 'The input was written.' },
      async handle({ caller, params, query, body, reply }) {
        const found = await running(sessions, caller, params)
        if (!found.write || !found.closeStdin)
          throw new SandboxError('stdin_closed', 'The command does not accept input.', {
            hint: {
              sdk: 'Start it with spawn() and { stdin: "pipe" }.',
              http: 'Start it with run and stdin_open: true.',
              cli: 'Start it with sandkasten exec --detach --stdin.',
            },
          })
        for await (const chunk of bodyChunks(body, patience.bodyMs)) await found.write(chunk)
        if (query.eof) await found.closeStdin()
        reply.code(204)
      },
    }),
    route({
      id: 'signalExec',
      method: 'POST',
      path: '/v1/sessions/{id}/execs/{exec_id}/signal',
      access: 'exec',
      tag,
      summary: 'Send a signal to a command and all its child processes.',
      params: schemas.execParams,
      body: z.strictObject({ signal: z.enum(signals).optional().describe('Default SIGTERM.') }),
      answer: {
        description: 'False when the command had already ended.',
        schema: z.object({ signalled: z.boolean() }),
      },
      async handle({ caller, params, body }) {
        const found = await sessions.commands.find(caller, params.id, params.exec_id)
        if (found.state === 'stored') return { signalled: false }
        return { signalled: await found.kill(body.signal ?? 'SIGTERM') }
      },
    }),
  ]
}

const signals = [
  'SIGTERM',
  'SIGKILL',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGSTOP',
  'SIGCONT',
] as const satisfies ProcessSignal[]

function wantsEvents({ request }: Call, stream: boolean | undefined): boolean {
  return stream ?? /\btext\/event-stream\b/.test(request.headers.accept ?? '')
}

function stdinOf(body: { stdin?: string; stdin_base64?: string }): Uint8Array | undefined {
  if (body.stdin !== undefined) return Buffer.from(body.stdin)
  return body.stdin_base64 === undefined ? undefined : Buffer.from(body.stdin_base64, 'base64')
}

/** Waits for the command's end. A client that disconnects ends the wait, not the command. */
async function ended(found: Command, signal: AbortSignal): Promise<ExecRow> {
  if (found.state === 'stored') return found.row
  const gone = new Promise<undefined>((resolve) =>
    signal.addEventListener('abort', () => resolve(undefined), { once: true }),
  )
  const row = await Promise.race([found.done, gone])
  if (row) return row
  throw new SandboxError('aborted', 'The client disconnected.')
}

async function running(
  sessions: Services['sessions'],
  caller: Call['caller'],
  params: { id: string; exec_id: string },
): Promise<LiveCommand> {
  const found = await sessions.commands.find(caller, params.id, params.exec_id)
  if (found.state === 'live') return found
  throw new SandboxError('stdin_closed', `The command ${params.exec_id} has ended.`)
}

function resultView(result: ExecResult, execId: string) {
  return result.kind === 'run' ? runView(result, execId) : shellView(result, execId)
}

function execView(row: Omit<ExecRow, 'events'> & { omitted?: boolean }): z.infer<typeof schemas.exec> {
  return {
    exec_id: row.exec_id,
    kind: row.kind === 'exec' ? 'exec' : 'run',
    status: row.status,
    shell: row.shell,
    command: JSON.parse(row.command),
    detached: row.detached === 1,
    incarnation: row.incarnation,
    created_at: iso(row.created_at),
    ended_at: isoOrNull(row.ended_at),
    result:
      row.status === 'done' && !row.omitted
        ? resultView(resultOf({ ...row, events: null }), row.exec_id)
        : null,
    result_omitted: row.omitted ? true : undefined,
  }
}

/** Encodes valid UTF-8 as text and other bytes as base64. */
function outputEvent(row: ExecRow, event: Exclude<ProcessEvent, { type: 'exit' }>): ServerEvent {
  const bytes = Buffer.from(event.data.buffer, event.data.byteOffset, event.data.byteLength)
  const text = bytes.toString('utf8')
  const content = Buffer.from(text, 'utf8').equals(bytes) ? { text } : { base64: bytes.toString('base64') }
  return {
    event: row.kind === 'exec' ? 'output' : event.type,
    id: event.seq,
    data: { seq: event.seq, ...content },
  }
}

/** Skips the start event. So the first awaited event is output, and dropped output can still be answered with 410. */
async function* withoutStart(events: AsyncIterable<ServerEvent>): AsyncGenerator<ServerEvent> {
  for await (const event of events) if (event.event !== 'start') yield event
}

function after(waitMs: number, signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), waitMs)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}

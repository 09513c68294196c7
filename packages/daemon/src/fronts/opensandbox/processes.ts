import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { type Command, type LiveCommand, type RunRequest, resultOf } from '../../sessions/index.ts'
import { outputOf } from '../shared/output.ts'
import { needed, notSupported, parsed } from '../shared/request.ts'
import { textSoFar } from './code/current-output.ts'
import { commandEvents, event, sendExecution } from './code/execution-events.ts'
import type { Call, Entry } from './entry.ts'
import * as schemas from './schemas.ts'

/** How long an interrupted command may take to end before it is killed. */
const graceMs = 3000

/**
 * Shell commands. Each is a command of the session with an id, and so outlives the request that started it, and this
 * daemon.
 */
export function processRoutes(entry: Entry): void {
  const { sessions } = entry.services

  entry.execd('POST', '/command', 'exec', async (call) => {
    const body = parsed(schemas.commandBody, call.body)
    if (body.uid !== undefined || body.gid !== undefined)
      throw notSupported('uid', 'Leave it out. A sandbox has one account.')
    await entry.find(call.caller, call.id)
    const found = await start(entry, call, body.command, {
      cwd: body.cwd || undefined,
      env: body.envs,
      timeoutMs: body.timeout,
    })
    if (!body.background)
      return sendExecution(
        entry,
        call,
        found,
        (ending) => commandEvents(found, ending),
        (running) => running.kill('SIGKILL'),
      )
    const events = async function* () {
      yield event('init', { text: found.row.exec_id })
      yield event('execution_complete', { execution_time: 0 })
    }
    return entry.services.streams.send(call.reply, events, call.signal)
  })

  entry.execd('DELETE', '/command', 'exec', async (call) => {
    const found = await command(entry, call, needed(call, 'id'))
    if (found.state === 'live') await interrupt(found)
  })

  entry.execd('GET', '/command/status/:command', 'read', async (call) => {
    const found = await command(entry, call, call.params.command!)
    return statusOf(found.row)
  })

  entry.execd('GET', '/command/:command/logs', 'read', async (call) => {
    const found = await command(entry, call, call.params.command!)
    const { text, cursor } = await textSoFar(
      (signal) => outputOf(found, signal, cursorOf(call)),
      cursorOf(call),
      call.signal,
      found.state === 'stored',
    )
    call.reply
      .type('text/plain; charset=utf-8')
      .header('execd-commands-tail-cursor', String(cursor))
      .send(text)
    return undefined
  })

  const command = async ({ find }: Entry, call: Call, id: string): Promise<Command> => {
    await find.call(entry, call.caller, call.id)
    return sessions.commands.find(call.caller, call.id, id).catch((error: unknown) => {
      throw SandboxError.is(error, 'not_found') ? noCommand(id) : error
    })
  }
}

/** Runs the line with bash, as execd does, or with sh in images without bash. */
async function start(
  { services }: Entry,
  { caller, id }: Call,
  line: string,
  options: Pick<RunRequest, 'cwd' | 'env' | 'timeoutMs'>,
): Promise<Command> {
  const run = (cmd: string) =>
    services.sessions.commands.start(
      caller,
      id,
      randomUUID(),
      // Events carry the output, so the result does not repeat it.
      { kind: 'run', cmd, args: ['-c', line], detached: true, maxOutputBytes: 1, ...options },
      { wake: false },
    )
  return run('bash').catch((error: unknown) => {
    if (SandboxError.is(error, 'command_not_found')) return run('sh')
    throw error
  })
}

export async function interrupt(running: LiveCommand): Promise<void> {
  await running.kill('SIGTERM')
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), graceMs)
  })
  if (!(await Promise.race([running.done, patience]))) await running.kill('SIGKILL')
  clearTimeout(timer)
}

function statusOf(row: Command['row']): object {
  const words: unknown = JSON.parse(row.command)
  const exitCode = row.status === 'done' ? resultOf(row).exitCode : null
  const failure = exitCode ? `exit status ${exitCode}` : undefined
  return {
    id: row.exec_id,
    content: Array.isArray(words) ? words.at(-1) : words,
    running: row.status === 'running',
    exit_code: exitCode,
    error: row.status === 'lost' ? 'the sandbox ended before the command did' : failure,
    started_at: new Date(row.created_at).toISOString(),
    finished_at: row.ended_at === null ? null : new Date(row.ended_at).toISOString(),
  }
}

/** The number of the last event that was read. */
function cursorOf({ query }: Call): number {
  const { cursor } = query
  if (cursor === undefined) return 0
  if (typeof cursor === 'string' && /^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new SandboxError('invalid_argument', 'cursor is not a number.', {
    hint: 'Pass the cursor of the previous response.',
  })
}

function noCommand(id: string): SandboxError {
  return new SandboxError('not_found', `Command ${id} not found.`, {
    details: { opensandboxCode: 'INVALID_REQUEST_BODY' },
    hint: 'Use the id of the command’s init event.',
  })
}

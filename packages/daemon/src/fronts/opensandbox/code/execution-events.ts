import type { ProcessExit, SandboxError } from '@sandkasten/sdk'
import type { ServerEvent } from '../../../http/event-streams.ts'
import type { Command, LiveCommand } from '../../../sessions/index.ts'
import { outputOf } from '../../shared/output.ts'
import type { Call, Entry } from '../entry.ts'
import { Lines } from './line-splitter.ts'

const touchMs = 10_000

/** An event of an execution, as execd sends it. */
export function event(type: string, fields: object = {}): ServerEvent {
  return { event: type, data: { type, ...fields, timestamp: Date.now() } }
}

export function failure(ename: string, evalue: string, traceback: readonly string[]): ServerEvent {
  return event('error', { error: { ename, evalue, traceback } })
}

/** The last event of a broken stream. Without it the SDK takes the stream for a completed one. */
function broken({ code, message }: SandboxError): ServerEvent {
  return failure('CommandExecError', code, [message])
}

/** Sends an execution's events. `abandon` runs when the client disconnects before the end. */
export async function sendExecution(
  { services }: Entry,
  call: Call,
  found: Command,
  events: (ending: AbortSignal) => AsyncIterable<ServerEvent>,
  abandon?: (running: LiveCommand) => Promise<unknown>,
): Promise<void> {
  let over = false
  const source = async function* (ending: AbortSignal) {
    yield* events(ending)
    over = true
  }
  // Waiting for output counts as activity. The command's own timeout still applies.
  const using = setInterval(() => services.sessions.touch(call.id), touchMs)
  try {
    await services.streams.send(call.reply, source, call.signal, broken)
  } finally {
    clearInterval(using)
  }
  if (abandon && !over && call.signal.aborted && found.state === 'live') await abandon(found).catch(() => {})
}

/** The events of a command: `init`, a `stdout` or `stderr` for each line, and the end. */
export async function* commandEvents(found: Command, ending: AbortSignal): AsyncGenerator<ServerEvent> {
  const { exec_id: id } = found.row
  yield event('init', { text: id })
  const lines = { stdout: new Lines(), stderr: new Lines() }
  for await (const one of outputOf(found, ending)) {
    if (one.type !== 'exit') {
      for (const text of lines[one.type].push(one.data)) yield event(one.type, { text })
      continue
    }
    for (const name of ['stdout', 'stderr'] as const)
      for (const text of lines[name].end()) yield event(name, { text })
    return void (yield endOf(one))
  }
  yield failure('CommandExecError', 'interrupted', ['the sandbox ended before the command did'])
}

function endOf({ exitCode, timedOut, signal, durationMs }: ProcessExit): ServerEvent {
  if (exitCode === 0 && !timedOut)
    return event('execution_complete', { execution_time: Math.round(durationMs) })
  const why = timedOut ? 'command timed out' : signal ? `signal: ${signal}` : `exit status ${exitCode}`
  return failure('CommandExecError', String(exitCode), [why])
}

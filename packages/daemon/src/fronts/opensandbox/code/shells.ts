import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { quoteArg } from '@sandkasten/sdk/provider'
import { closeShell, type Session, shellOf } from '../../../sessions/index.ts'
import { parsed } from '../../shared/request.ts'
import type { Call, Entry } from '../entry.ts'
import * as schemas from '../schemas.ts'
import { commandEvents, sendExecution } from './execution-events.ts'

const kind = 'session'

/** Bash sessions are named shells. Directory, variables and functions persist between runs. */
export function sessionRoutes(entry: Entry): void {
  const { place } = entry
  const keyOf = ({ id }: Session, session: string) => `${id} ${session}`

  const known = async ({ caller, id, params }: Call): Promise<{ session: Session; name: string }> => {
    const session = await entry.find(caller, id)
    const name = params.session!
    const start = await place.records.get<number>(caller.projectId, kind, keyOf(session, name))
    // Shells end with their sandbox.
    if (start === session.incarnation) return { session, name }
    throw noContext(name)
  }

  entry.execd('POST', '/session', 'exec', async (call) => {
    const { cwd } = parsed(schemas.sessionBody, call.body)
    const name = await openShell(entry, call, cwd)
    const session = await entry.find(call.caller, call.id)
    await place.records.put(
      call.caller.projectId,
      kind,
      keyOf(session, name),
      session.incarnation,
      session.id,
    )
    return { session_id: name }
  })

  entry.execd('POST', '/session/:session/run', 'exec', async (call) => {
    const { command, cwd, timeout } = parsed(schemas.sessionRunBody, call.body)
    const { name } = await known(call)
    const line = cwd ? `cd -- ${quoteArg(cwd)} && eval ${quoteArg(command)}` : command
    return runInShell(entry, call, name, line, timeout)
  })

  entry.execd('DELETE', '/session/:session', 'exec', async (call) => {
    const { session, name } = await known(call)
    await endShell(entry, call, name)
    await place.records.delete(call.caller.projectId, kind, keyOf(session, name))
  })
}

/** Opens a shell and returns its name. */
export async function openShell(entry: Entry, call: Call, cwd?: string): Promise<string> {
  const name = `opensandbox-${randomUUID()}`
  await entry.use(call, ({ open }) => shellOf(open, name, cwd ? { cwd } : {}))
  return name
}

export async function endShell(entry: Entry, call: Call, name: string): Promise<void> {
  await entry.use(call, async ({ open }) => {
    // After a restart of the daemon the shell is not open here, but it still exists.
    await shellOf(open, name)
    await closeShell(open, name)
  })
}

/** Runs a line in a shell and sends its events. All output is `stdout`, because a shell merges its streams. */
export async function runInShell(
  entry: Entry,
  call: Call,
  shell: string,
  command: string,
  timeoutMs = entry.services.config.defaults.max_exec_timeout_ms,
): Promise<void> {
  const found = await entry.services.sessions.commands.start(
    call.caller,
    call.id,
    randomUUID(),
    { kind: 'exec', command, shell, timeoutMs, maxOutputBytes: 1 },
    { wake: false },
  )
  return sendExecution(
    entry,
    call,
    found,
    (ending) => commandEvents(found, ending),
    (running) => running.kill('SIGKILL'),
  )
}

export function noContext(id: string): SandboxError {
  return new SandboxError('not_found', `Context ${id} not found.`, {
    details: { opensandboxCode: 'CONTEXT_NOT_FOUND' },
    hint: 'Create a new one. It was deleted, or ended with its interpreter or its sandbox.',
  })
}

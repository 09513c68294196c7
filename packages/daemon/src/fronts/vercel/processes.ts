import { type ProcessSignal, SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import * as fields from '../../http/fields.ts'
import type { Command, LiveCommand, Session } from '../../sessions/index.ts'
import { outputOf } from '../shared/output.ts'
import { notSupported, parsed } from '../shared/request.ts'
import type { Entry, VercelCall, VercelRoute } from './entry.ts'
import { sendLines } from './ndjson.ts'
import { CommandInputs, stdinBody, unavailable } from './process-stdin.ts'
import { running } from './sessions.ts'
import { commandView } from './views.ts'

const base = '/v2/sandboxes/sessions/:sid/cmd'
/** The vendor keeps all output. This is the most that a sandbox can keep. */
const outputBytes = 16 * 1024 * 1024

const commandBody = z.looseObject({
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  cwd: z.string().min(1).optional(),
  env: fields.env.default({}),
  sudo: z.boolean().default(false),
  wait: z.boolean().default(false),
  attachStdin: z.boolean().default(false),
  timeout: z.number().positive().optional(),
})

type ExecRow = Command['row']

export function processRoutes(entry: Entry): VercelRoute[] {
  const { sessions } = entry.services
  const inputs = new CommandInputs()

  const find = async (call: VercelCall): Promise<{ session: Session; found: Command }> => {
    const { session, incarnation } = await entry.bySession(call.caller, call.params.sid!)
    const found = await sessions.commands.find(call.caller, session.id, call.params.cmdId!)
    if (found.row.incarnation === incarnation) return { session, found }
    throw new SandboxError('not_found', `The session has no command ${call.params.cmdId}.`)
  }

  /** A command's output as log lines. The caller adds the end. */
  const logs = async function* (found: Command, ending: AbortSignal): AsyncGenerator<object> {
    const decoders = { stdout: textDecoder(), stderr: textDecoder() }
    for await (const event of outputOf(found, ending)) {
      if (event.type === 'exit') break
      const data = decoders[event.type].decode(event.data, { stream: true })
      if (data !== '') yield { stream: event.type, data }
    }
    for (const stream of ['stdout', 'stderr'] as const) {
      const data = decoders[stream].decode()
      if (data !== '') yield { stream, data }
    }
  }

  /**
   * Sends the output, then `last`. If the sandbox ends before the command, sends the vendor's error line, because the SDK
   * does not handle a cut connection.
   */
  const lines = (found: Command, last: (row: ExecRow) => object[]) =>
    async function* (ending: AbortSignal): AsyncGenerator<object> {
      const failure = yield* caught(logs(found, ending))
      const row = found.state === 'live' ? await finalRow(found, failure, ending) : found.row
      if (row.status === 'lost') yield sandboxStopped
      else if (failure) throw failure.error
      else yield* last(row)
    }

  return [
    {
      method: 'POST',
      path: base,
      scope: 'exec',
      async handle(call) {
        const body = parsed(commandBody, call.body)
        const session = await running(entry, call)
        if (body.sudo && !(await isRoot(entry, call, session)))
          throw notSupported(
            'sudo',
            'Commands run as the sandbox’s user. The front’s setting `user: root` makes that root.',
          )
        const found = await sessions.commands.start(
          call.caller,
          session.id,
          `cmd_${randomId(24)}`,
          {
            kind: 'run',
            cmd: body.command,
            args: body.args,
            env: body.env,
            cwd: body.cwd,
            timeoutMs: body.timeout,
            // Waiting for a command does not extend the sandbox's lifetime.
            detached: true,
            // Events carry the output, so the result does not repeat it.
            maxOutputBytes: 1,
            outputBufferBytes: outputBytes,
            stdin: body.attachStdin ? ('pipe' as const) : undefined,
          },
          { incarnation: session.incarnation },
        )
        if (body.attachStdin && found.state === 'live') inputs.attach(found)
        if (!body.wait) return { command: commandView(session, found.row) }
        const begun = { command: { ...commandView(session, found.row), exitCode: null } }
        const rest = lines(found, (row) => [{ command: commandView(session, row) }])
        return sendLines(entry, call.reply, call.signal, async function* (ending) {
          yield begun
          yield* rest(ending)
        })
      },
    },
    {
      method: 'GET',
      path: `${base}/:cmdId`,
      scope: 'read',
      async handle(call) {
        const { session, found } = await find(call)
        if (call.query.wait !== 'true' || found.state === 'stored')
          return { command: commandView(session, found.row) }
        const gone = new Promise<undefined>((resolve) =>
          call.signal.addEventListener('abort', () => resolve(undefined), { once: true }),
        )
        const row = await Promise.race([found.done, gone])
        return { command: commandView(session, row ?? found.row) }
      },
    },
    {
      method: 'GET',
      path: `${base}/:cmdId/logs`,
      scope: 'read',
      async handle(call) {
        const { found } = await find(call)
        return sendLines(
          entry,
          call.reply,
          call.signal,
          lines(found, () => []),
        )
      },
    },
    {
      method: 'POST',
      path: `${base}/:cmdId/stdin`,
      scope: 'exec',
      async handle(call) {
        const body = parsed(stdinBody, call.body)
        const { session, found } = await find(call)
        if (found.state === 'stored') throw unavailable()
        const bytesWritten = await inputs.write(found, body)
        return { command: commandView(session, found.row), bytesWritten }
      },
    },
    {
      method: 'POST',
      path: `${base}/:cmdId/kill`,
      scope: 'exec',
      async handle(call) {
        const { signal } = parsed(z.looseObject({ signal: z.int().default(15) }), call.body)
        const name = signals[signal]
        if (name === undefined) throw notSupported(`The signal ${signal}`)
        const { session, found } = await find(call)
        if (found.state === 'live') await found.kill(name)
        return { command: commandView(session, found.row) }
      },
    },
  ]
}

/** Yields all values of the source, and returns the error that ended it. */
async function* caught<T>(source: AsyncIterable<T>): AsyncGenerator<T, { error: unknown } | undefined> {
  try {
    yield* source
    return undefined
  } catch (error) {
    return { error }
  }
}

/** How long to wait for the command's end after its output failed, before the failure is thrown. */
const verdictMs = 10_000

async function finalRow(
  { done, row }: LiveCommand,
  failure: { error: unknown } | undefined,
  ending: AbortSignal,
): Promise<ExecRow> {
  if (!failure) return done
  const late = AbortSignal.any([ending, AbortSignal.timeout(verdictMs)])
  const given = new Promise<ExecRow>((resolve) =>
    late.aborted ? resolve(row) : late.addEventListener('abort', () => resolve(row), { once: true }),
  )
  return Promise.race([done, given])
}

/** The SDK throws this as its StreamError. */
const sandboxStopped = {
  stream: 'error',
  data: { code: 'sandbox_stopped', message: 'The sandbox was stopped while the command ran.' },
}

const signals: Readonly<Record<number, ProcessSignal>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  9: 'SIGKILL',
  10: 'SIGUSR1',
  12: 'SIGUSR2',
  15: 'SIGTERM',
  18: 'SIGCONT',
  19: 'SIGSTOP',
}

function textDecoder() {
  return new TextDecoder('utf-8', { ignoreBOM: true })
}

async function isRoot(entry: Entry, call: VercelCall, session: Session): Promise<boolean> {
  return entry.services.sessions.use.use(
    call.caller,
    session.id,
    async ({ sandbox }) => (await sandbox.runCommand({ cmd: 'id', args: ['-u'] })).stdout.trim() === '0',
    { incarnation: session.incarnation },
  )
}

import { constants } from 'node:os'
import { quoteArg, quoteArgs, SandboxError } from '@sandkasten/sdk'
import { say } from '../../errors.ts'
import { durationText, oneLine, timeText } from '../../format.ts'
import { parseDuration } from '../../options.ts'
import { write } from '../../output.ts'
import { timedOutCode } from '../../steer.ts'
import { print } from '../../table.ts'
import { type Connection, type ConnectOptions, connect } from '../client/api.ts'
import { bytesOf, eventsOf, type Received } from '../client/events.ts'
import { type PassedInput, passInput, pipedInput } from '../client/input.ts'

export interface ExecOptions extends ConnectOptions {
  json?: boolean
  shell?: string
  timeout?: number
  detach?: boolean
  id?: string
  env?: Record<string, string>
  workdir?: string
  stdin?: boolean
  maxOutput?: number
  buffer?: number
}

/** Longer than the API's default, because people run builds and tests. */
const defaultTimeoutSeconds = 3600

/** Runs a command in a session's shell and streams its output. One argument is a shell line; several are quoted. */
export async function exec(id: string, command: readonly string[], options: ExecOptions): Promise<number> {
  const connection = await connect(options)
  const base = await connection.session(id)
  return options.detach
    ? detached(connection, id, base, command, options)
    : attached(connection, base, command, options)
}

async function attached(
  connection: Connection,
  base: string,
  command: readonly string[],
  options: ExecOptions,
): Promise<number> {
  for (const flag of ['env', 'workdir', 'buffer'] as const)
    if (options[flag] !== undefined)
      throw new SandboxError('invalid_argument', `--${flag} needs --detach.`, {
        hint: 'A shell keeps its own state: set it in the command, with NAME=value or cd FOLDER.',
      })
  const leaving = new AbortController()
  let left: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | undefined
  const leave = (signal: NodeJS.Signals) => {
    left = signal as typeof left
    leaving.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, leave)
  let input: PassedInput | undefined
  try {
    if (options.stdin !== false && pipedInput()) input = await passInput(connection, base, leaving.signal)
    return await run(connection, base, command, options, { input, signal: leaving.signal })
  } catch (error) {
    if (left === undefined) throw error
    // Without an id, the daemon ends the command when the request ends.
    if (options.id !== undefined)
      await connection.request('POST', `${base}/execs/${options.id}/signal`, { body: { signal: 'SIGINT' } })
    return 128 + constants.signals[left]
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, leave)
    await input?.close()
  }
}

async function run(
  connection: Connection,
  base: string,
  command: readonly string[],
  options: ExecOptions,
  { input, signal }: { input?: PassedInput; signal: AbortSignal },
): Promise<number> {
  const line = command.length === 1 ? command[0]! : quoteArgs(command)
  const shell = options.shell ?? 'main'
  const body = {
    cmd: input ? `eval ${quoteArg(line)} <${quoteArg(input.path)}` : line,
    shell,
    stream: true,
    exec_id: options.id,
    max_output_bytes: options.maxOutput && Math.round(options.maxOutput * 1_048_576),
  }
  const { response, limit } = await started(connection, `${base}/exec`, body, options, signal)
  const notice = reportBusyShell(connection, base, shell)
  try {
    for await (const received of eventsOf(response)) {
      const { event, data } = received
      if (event === 'start') notice.own(data.exec_id)
      if (event === 'output') {
        notice()
        if (!options.json) await write(process.stdout, bytesOf(received))
      }
      if (event === 'exit') return await ended(received, limit, options)
    }
  } finally {
    notice()
  }
  throw new SandboxError('connection_lost', 'The stream ended before the command did.')
}

interface Limit {
  ms: number
  /** The daemon's maximum applies. */
  most: boolean
}

/** Requests the default for people. If the daemon's maximum is lower and the user gave no limit, uses the maximum. */
async function started(
  connection: Connection,
  path: string,
  body: object,
  options: ExecOptions,
  signal: AbortSignal,
): Promise<{ response: Response; limit: Limit }> {
  const asked = options.timeout ?? environmentTimeout()
  const ms = Math.round((asked ?? defaultTimeoutSeconds) * 1000)
  const send = (timeout_ms: number) =>
    connection.request('POST', path, { body: { ...body, timeout_ms }, signal })
  try {
    return { response: await send(ms), limit: { ms, most: false } }
  } catch (error) {
    const most = SandboxError.is(error, 'invalid_argument') ? error.details.max_timeout_ms : undefined
    if (typeof most !== 'number' || asked !== undefined) throw error
    return { response: await send(most), limit: { ms: most, most: true } }
  }
}

function environmentTimeout(): number | undefined {
  const text = process.env.SANDKASTEN_EXEC_TIMEOUT
  if (!text) return undefined
  try {
    return parseDuration(text)
  } catch {
    throw new SandboxError('invalid_argument', `SANDKASTEN_EXEC_TIMEOUT is “${text}”.`, {
      hint: 'Use seconds, or a number and a unit, such as 90m or 2h.',
    })
  }
}

async function ended({ data }: Received, limit: Limit, options: ExecOptions): Promise<number> {
  if (options.json) {
    const { seq: _, ...result } = data
    console.log(JSON.stringify(result, null, 2))
  } else if (data.warning !== undefined) say(`sandkasten: ${data.warning}`)
  if (!data.timed_out) return data.exit_code ?? 125
  say(
    `sandkasten: the command was ended after ${durationText(limit.ms / 1000)}, its time limit. ${
      limit.most
        ? 'This daemon allows no more (defaults.max_exec_timeout_ms); a command with --detach has no limit.'
        : 'Raise it with --timeout, such as --timeout 3h, or SANDKASTEN_EXEC_TIMEOUT.'
    }`,
  )
  return timedOutCode
}

/** A shell runs one command at a time. After a second without output, reports which command is running. */
function reportBusyShell(connection: Connection, base: string, shell: string) {
  let ours: string | undefined
  let over = false
  const look = async () => {
    const { shells } = await connection.json<{ shells: Shell[] }>('GET', `${base}/shells`)
    const found = shells.find(({ name }) => name === shell)
    if (over || !found?.running || found.running.exec_id === ours) return
    const { exec_id, command, started_at } = found.running
    const who = exec_id === null ? '' : ` (${exec_id})`
    say(
      `sandkasten: waiting: the shell “${shell}” runs “${oneLine(command).slice(0, 60)}”${who}, started ${timeText(started_at)}. To run a command beside it, use --shell NAME.`,
    )
  }
  // A failed lookup is ignored; the command itself is not affected.
  const timer = setTimeout(() => void look().catch(() => {}), 1_000)
  const stop = () => {
    over = true
    clearTimeout(timer)
  }
  return Object.assign(stop, {
    own(execId: string | undefined) {
      ours = execId
    },
  })
}

interface Shell {
  name: string
  running: { exec_id: string | null; command: string; started_at: string } | null
}

/** A separate program in the shell's folder. It keeps running after we exit. */
async function detached(
  connection: Connection,
  id: string,
  base: string,
  command: readonly string[],
  options: ExecOptions,
): Promise<number> {
  if (options.shell !== undefined)
    throw new SandboxError('invalid_argument', '--shell and --detach cannot be combined.', {
      hint: 'A detached command runs beside the shells; omit one of the two.',
    })
  const cwd = options.workdir ?? (await connection.json<{ cwd: string | null }>('GET', base)).cwd
  const [cmd, ...args] = command.length === 1 ? ['sh', '-c', command[0]!] : command
  const started = await connection.json<{ exec_id: string }>('POST', `${base}/run`, {
    cmd,
    args,
    detach: true,
    cwd: cwd ?? undefined,
    exec_id: options.id,
    env: options.env,
    stdin_open: options.stdin,
    timeout_ms: options.timeout && Math.round(options.timeout * 1000),
    max_output_bytes: options.maxOutput && Math.round(options.maxOutput * 1_048_576),
    output_buffer_bytes: options.buffer && Math.round(options.buffer * 1_048_576),
  })
  print(options.json, started, () => started.exec_id)
  if (process.stdout.isTTY && !options.json) say(`See its output: sandkasten logs ${id} ${started.exec_id}`)
  return 0
}

import { SandboxError } from '@sandkasten/sdk'
import { type CallOptions, call, checked, ended, opened } from './calls.ts'
import type { CborMap } from './cbor.ts'
import type { RunnerConnection } from './connection.ts'
import { ProtocolError } from './errors.ts'
import type { OutputChunk } from './frame.ts'
import {
  type Bytes,
  bool,
  int,
  maps,
  maybeBytes,
  maybeInt,
  maybeMap,
  maybeText,
  text,
  toBytes,
} from './schema.ts'
import type { RunnerStream } from './stream.ts'

export interface LaunchOptions {
  /** Added to the runner's environment; null removes a variable. */
  env?: Readonly<Record<string, Bytes | null>>
  clearEnv?: boolean
  cwd?: Bytes
  /** `name`, `uid`, `name:group` or `uid:gid`, resolved in the sandbox. */
  user?: string
  limits?: ProcessLimits
  cols?: number
  rows?: number
}

/** Kernel resource limits of the process and its descendants. */
export interface ProcessLimits {
  cpuSeconds?: number
  addressBytes?: number
  dataBytes?: number
  stackBytes?: number
  fileBytes?: number
  coreBytes?: number
  openFiles?: number
  processes?: number
  /** Includes POSIX timers. */
  pendingSignals?: number
  /** Bytes in POSIX message queues. */
  queueBytes?: number
  lockedBytes?: number
}

export interface StartOptions extends LaunchOptions, ReadOptions, CallOptions {
  /** Chosen by the caller. A repeated call finds the process of the first one. */
  id: string
  argv: readonly Bytes[]
  /** Keeps stdin open for `write`. Otherwise the process gets end-of-file at once. */
  stdin?: boolean
  /** Uses a terminal instead of pipes. All output is then `stdout`. */
  tty?: boolean
  /** One pipe for stdout and stderr. All output is then `stdout`. Throws `unsupported` for a runner before 1.2. */
  merged?: boolean
  /** After this time the process and its descendants get TERM, and after `graceMs` more KILL (default 1000). */
  timeoutMs?: number
  graceMs?: number
  /** How many bytes of output are kept for later readers. Default 256 KiB, at most 16 MiB. */
  ringBytes?: number
  /** Kills the program and its descendants when this connection ends. For programs that cannot be found again. */
  bound?: boolean
}

export interface ReadOptions {
  /** The last event that you received; later ones are sent. Default 0: all events that are kept. */
  after?: number
  /** Never blocks the process. A slow reader misses output, and gets a `gone` event. */
  lossy?: boolean
  /** `end` reads until the last background process has closed the output. Default `exit`. */
  until?: 'exit' | 'end'
}

export interface AttachOptions extends ReadOptions, CallOptions {
  /** Takes over stdin after its last writer has gone. */
  stdin?: boolean
}

export interface ProcessExit {
  /** Exactly one of these two is set. */
  exitCode?: number
  signal?: string
  timedOut: boolean
  durationMs: number
  userMs?: number
  systemMs?: number
  maxRssKb?: number
  /** Set for a shell command. */
  cwd?: Uint8Array
  /** For a shell command: it ran in a new shell, because the previous one had ended. */
  restarted?: boolean
  /** For a shell command: it ended its shell. */
  shellExited?: boolean
  /** For a shell's first command: why the requested login shell was not used (`timeout`, `exited`, `replaced`). */
  loginSkipped?: string
  /** The number of the last event before the exit. */
  last?: number
}

export type OutputEvent = ({ type: 'output' } & OutputChunk) | { type: 'gone'; from: number; to: number }

export interface TaskInfo {
  id: string
  kind: 'process' | 'command'
  pid?: number
  running: boolean
  /** The oldest and newest readable event. */
  first: number
  last: number
  exit?: ProcessExit
}

/** A stream of a task's output. A slow reader slows the task, unless the stream is `lossy`. Leaving it does not end the task. */
export class TaskOutput implements AsyncIterable<OutputEvent> {
  /** Settles when the task has ended and all its output was sent. */
  readonly exit: Promise<ProcessExit>
  readonly #connection: RunnerConnection
  readonly #stream: RunnerStream
  #last = 0

  constructor(connection: RunnerConnection, stream: RunnerStream, after = 0) {
    this.#connection = connection
    this.#stream = stream
    this.#last = after
    this.exit = ended(connection, stream, exitOf)
    this.exit.catch(() => {})
  }

  /** Writes to stdin, if the stream owns it. */
  write(data: Bytes): Promise<void> {
    return this.#stream.write(toBytes(data))
  }

  endStdin(): Promise<void> {
    return this.#stream.end()
  }

  /** Stops reading. The task continues. */
  detach(): void {
    this.#stream.cancel()
  }

  /** Discards output, to wait only for `exit`. */
  discard(): void {
    this.#stream.discard()
  }

  async next(): Promise<OutputEvent | undefined> {
    const item = await this.#stream.next()
    if (item === undefined) return undefined
    return checked(
      this.#connection,
      () => {
        if (item.type === 'output') {
          if (item.number !== this.#last + 1) throw outOfOrder(`event ${item.number} after ${this.#last}`)
          this.#last = item.number
          return item
        }
        if (item.type !== 'event' || item.body.event !== 'gone')
          throw outOfOrder('an event that output does not have')
        const gone = { type: 'gone' as const, from: int(item.body, 'from'), to: int(item.body, 'to') }
        if (gone.to <= this.#last) throw outOfOrder('a gone event for output that was already sent')
        this.#last = gone.to - 1
        return gone
      },
      {},
    )
  }

  async *[Symbol.asyncIterator](): AsyncIterator<OutputEvent> {
    try {
      for (;;) {
        const event = await this.next()
        if (event === undefined) return
        yield event
      }
    } finally {
      this.#stream.cancel()
    }
  }
}

export class RunnerProcess extends TaskOutput {
  readonly id: string
  readonly pid: number
  /** The id was in use: this is the process of an earlier call. */
  readonly existed: boolean

  constructor(
    connection: RunnerConnection,
    stream: RunnerStream,
    started: { id: string; pid: number; existed: boolean },
  ) {
    super(connection, stream)
    this.id = started.id
    this.pid = started.pid
    this.existed = started.existed
  }
}

export async function startProcess(
  connection: RunnerConnection,
  options: StartOptions,
): Promise<RunnerProcess> {
  checkMerged(connection, options)
  const stream = connection.request('start', startBody(options), { content: true })
  const started = await opened(connection, stream, startedOf, options)
  return new RunnerProcess(connection, stream, { id: options.id, ...started })
}

/** Starts a process without an output stream or stdin. */
export async function startDetached(
  connection: RunnerConnection,
  options: Omit<StartOptions, 'stdin'>,
): Promise<{ pid: number; existed: boolean }> {
  checkMerged(connection, options)
  return call(connection, 'start', { ...startBody(options), detached: true }, startedOf, options)
}

export async function attach(
  connection: RunnerConnection,
  id: string,
  options: AttachOptions = {},
): Promise<TaskOutput> {
  const body = { id, ...readBody(options), stdin: options.stdin }
  const stream = connection.request('attach', body, { content: true })
  await opened(connection, stream, (open) => bool(open, 'running'), options)
  return new TaskOutput(connection, stream, options.after)
}

export function waitFor(
  connection: RunnerConnection,
  id: string,
  options: CallOptions = {},
): Promise<ProcessExit> {
  return call(connection, 'wait', { id }, exitOf, { answerTimeoutMs: Number.POSITIVE_INFINITY, ...options })
}

export function listTasks(connection: RunnerConnection, options: CallOptions = {}): Promise<TaskInfo[]> {
  return call(connection, 'list', {}, (body) => maps(body, 'tasks').map(taskOf), options)
}

export function launchBody(options: LaunchOptions): CborMap {
  const env = Object.entries(options.env ?? {}).map(([name, value]) => [
    name,
    value === null ? null : toBytes(value),
  ])
  return {
    env: options.env === undefined ? undefined : Object.fromEntries(env),
    clearEnv: options.clearEnv,
    cwd: options.cwd === undefined ? undefined : toBytes(options.cwd),
    user: options.user,
    limits: options.limits === undefined ? undefined : { ...options.limits },
    cols: options.cols,
    rows: options.rows,
  }
}

export function readBody(options: ReadOptions): CborMap {
  return { after: options.after, lossy: options.lossy, until: options.until }
}

export function exitOf(body: CborMap): ProcessExit {
  const exitCode = maybeInt(body, 'exitCode')
  const signal = maybeText(body, 'signal')
  if ((exitCode === undefined) === (signal === undefined))
    throw outOfOrder('an exit with neither or both of code and signal')
  return {
    exitCode,
    signal,
    timedOut: bool(body, 'timedOut'),
    durationMs: int(body, 'durationMs'),
    userMs: maybeInt(body, 'userMs'),
    systemMs: maybeInt(body, 'systemMs'),
    maxRssKb: maybeInt(body, 'maxRssKb'),
    cwd: maybeBytes(body, 'cwd'),
    restarted: body.restarted === undefined ? undefined : bool(body, 'restarted'),
    shellExited: body.shellExited === undefined ? undefined : bool(body, 'shellExited'),
    loginSkipped: maybeText(body, 'loginSkipped'),
    last: maybeInt(body, 'last'),
  }
}

function startBody(options: Omit<StartOptions, 'stdin'> & { stdin?: boolean }): CborMap {
  return {
    id: options.id,
    argv: options.argv.map(toBytes),
    ...launchBody(options),
    ...readBody(options),
    stdin: options.stdin,
    tty: options.tty,
    merged: options.merged,
    timeoutMs: options.timeoutMs,
    graceMs: options.graceMs,
    ringBytes: options.ringBytes,
    bound: options.bound,
  }
}

/** An older runner would ignore the field and keep the streams apart. */
function checkMerged({ welcome }: RunnerConnection, { merged }: Pick<StartOptions, 'merged'>): void {
  if (!merged || welcome.minor >= 2) return
  throw new SandboxError(
    'unsupported',
    `The sandbox’s runner is too old for merged output: it speaks protocol 1.${welcome.minor}.`,
    { hint: 'Stop the sandbox and start it again: it then gets the current runner.' },
  )
}

function startedOf(body: CborMap): { pid: number; existed: boolean } {
  return { pid: int(body, 'pid'), existed: bool(body, 'existed') }
}

function taskOf(body: CborMap): TaskInfo {
  const kind = text(body, 'kind')
  if (kind !== 'process' && kind !== 'command') throw outOfOrder('a task of an unknown kind')
  const exit = maybeMap(body, 'exit')
  return {
    id: text(body, 'id'),
    kind,
    pid: maybeInt(body, 'pid'),
    running: bool(body, 'running'),
    first: int(body, 'first'),
    last: int(body, 'last'),
    exit: exit === undefined ? undefined : exitOf(exit),
  }
}

function outOfOrder(message: string): ProtocolError {
  return new ProtocolError('out_of_order', message)
}

/** Processes: start, attach, wait, signal, resize, list, forget. */

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
  /** Added to the runner's environment; null takes a variable away. */
  env?: Readonly<Record<string, Bytes | null>>
  /** Start from an empty environment. */
  clearEnv?: boolean
  cwd?: Bytes
  /** `name`, `uid`, `name:group` or `uid:gid`, as the sandbox knows them. */
  user?: string
  limits?: ProcessLimits
  cols?: number
  rows?: number
}

/** Kernel resource limits of the process and what it starts. */
export interface ProcessLimits {
  cpuSeconds?: number
  addressBytes?: number
  dataBytes?: number
  stackBytes?: number
  fileBytes?: number
  coreBytes?: number
  openFiles?: number
  processes?: number
  /** POSIX timers count, too. */
  pendingSignals?: number
  /** Of POSIX message queues. */
  queueBytes?: number
  lockedBytes?: number
}

export interface StartOptions extends LaunchOptions, ReadOptions, CallOptions {
  /** Chosen by the caller: a repeat finds the process of the first call. */
  id: string
  argv: readonly Bytes[]
  /** Keeps stdin open for `write`. Otherwise the process sees its end at once. */
  stdin?: boolean
  /** A terminal instead of pipes; all output is then `stdout`. */
  tty?: boolean
  /** The process and everything it started get TERM after this time, and KILL after `graceMs` more (default 1000). */
  timeoutMs?: number
  graceMs?: number
  /** How much output is kept for readers that come later. Default 256 KiB, at most 16 MiB. */
  ringBytes?: number
  /** Kill the program and everything it started when this connection ends. For programs that cannot be found again. */
  bound?: boolean
}

export interface ReadOptions {
  /** The last event that was seen; what follows is sent. Default 0: everything that is still there. */
  after?: number
  /** Never hold the process back: a slow reader misses output, and is told so. */
  lossy?: boolean
  /** `end` follows until the last background process has closed the output. Default `exit`. */
  until?: 'exit' | 'end'
}

export interface AttachOptions extends ReadOptions, CallOptions {
  /** Take over stdin after its last writer has gone. */
  stdin?: boolean
}

export interface ProcessExit {
  /** Exactly one of these two. */
  exitCode?: number
  signal?: string
  timedOut: boolean
  durationMs: number
  userMs?: number
  systemMs?: number
  maxRssKb?: number
  /** For a command of a shell. */
  cwd?: Uint8Array
  /** For a command of a shell: it ran in a fresh shell, because the one before had ended. */
  restarted?: boolean
  /** For a command of a shell: it ended its shell. */
  shellExited?: boolean
  /** For the first command of a shell: why it is no login shell, though one was asked for (`timeout`, `exited`, `replaced`). */
  loginSkipped?: string
  /** The number of the last event before the end. */
  last?: number
}

export type OutputEvent = ({ type: 'output' } & OutputChunk) | { type: 'gone'; from: number; to: number }

export interface TaskInfo {
  id: string
  kind: 'process' | 'command'
  pid?: number
  running: boolean
  /** The oldest and newest event that can be read. */
  first: number
  last: number
  exit?: ProcessExit
}

/** A stream of a task's output. Reading it slowly slows the task, unless it is `lossy`; leaving it ends nothing. */
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

  /** Writes to stdin, where the stream owns it. */
  write(data: Bytes): Promise<void> {
    return this.#stream.write(toBytes(data))
  }

  endStdin(): Promise<void> {
    return this.#stream.end()
  }

  /** Stops reading. The task goes on. */
  detach(): void {
    this.#stream.cancel()
  }

  /** Takes output and throws it away, so that only `exit` is left to wait for. */
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
          throw outOfOrder('an event that output has not')
        const gone = { type: 'gone' as const, from: int(item.body, 'from'), to: int(item.body, 'to') }
        if (gone.to <= this.#last) throw outOfOrder('output that is gone and was sent')
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
  /** The id was known: this is the process of an earlier call. */
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
  const stream = connection.request('start', startBody(options), { content: true })
  const started = await opened(connection, stream, startedOf, options)
  return new RunnerProcess(connection, stream, { id: options.id, ...started })
}

/** Starts it and lets go: no output stream, no stdin. */
export function startDetached(
  connection: RunnerConnection,
  options: Omit<StartOptions, 'stdin'>,
): Promise<{ pid: number; existed: boolean }> {
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
    throw outOfOrder('an end with neither or both of code and signal')
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
    timeoutMs: options.timeoutMs,
    graceMs: options.graceMs,
    ringBytes: options.ringBytes,
    bound: options.bound,
  }
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

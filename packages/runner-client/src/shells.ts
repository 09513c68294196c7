/** Stateful shells. */
import { HeadTail } from '@sandkasten/sdk/provider'
import { type CallOptions, call, opened } from './calls.ts'
import type { CborMap } from './cbor.ts'
import type { RunnerConnection } from './connection.ts'
import {
  type LaunchOptions,
  launchBody,
  type ProcessExit,
  type ReadOptions,
  readBody,
  TaskOutput,
} from './processes.ts'
import { type Bytes, bool, int, maps, maybeBytes, maybeInt, maybeText, text, toBytes } from './schema.ts'

export interface OpenShellOptions extends LaunchOptions, CallOptions {
  /** Chosen by the caller: a shell that is open under this id is found again. */
  id: string
  /** Default: bash, or sh if there is no bash. */
  shell?: 'bash' | 'sh'
  /** Read the user's profile first. A profile that does not let the shell work is left out: see `loginSkipped` of the first command. */
  login?: boolean
  /** How long the profile may take. Default 5 s, at most a minute. */
  loginTimeoutMs?: number
}

export interface ShellInfo {
  id: string
  pid?: number
  shell?: string
  cwd?: Uint8Array
  /** The id of the command that runs. */
  running?: string
  queued: number
}

export interface CommandOptions extends ReadOptions, CallOptions {
  /** Chosen by the caller: a repeat does not run the command again. */
  id: string
  /** Ends the command, not the shell. Counts from when its turn comes. */
  timeoutMs?: number
  /** Keep stdout and stderr apart; their order to each other is then lost. */
  separate?: boolean
  cols?: number
  rows?: number
  ringBytes?: number
  /** It ends with this connection; the shell does not. */
  bound?: boolean
}

export interface CommandResult extends ProcessExit {
  /** stdout and stderr, in order, or stdout alone when they were kept apart. */
  output: Buffer
  stderr: Buffer
  /** Bytes left out of the middle of either. */
  omitted: number
}

export class RunnerShell {
  readonly id: string
  /** Which shell it is: `bash` or `sh`. */
  readonly shell: string | undefined
  readonly existed: boolean
  readonly #connection: RunnerConnection

  constructor(connection: RunnerConnection, id: string, open: { shell?: string; existed: boolean }) {
    this.#connection = connection
    this.id = id
    this.shell = open.shell
    this.existed = open.existed
  }

  /** Queues a command and follows its output. Commands of one shell run one after another. */
  async start(command: Bytes, options: CommandOptions): Promise<TaskOutput> {
    const body: CborMap = {
      shell: this.id,
      id: options.id,
      command: toBytes(command),
      ...readBody(options),
      timeoutMs: options.timeoutMs,
      separate: options.separate,
      cols: options.cols,
      rows: options.rows,
      ringBytes: options.ringBytes,
      bound: options.bound,
    }
    const stream = this.#connection.request('shell.exec', body, { content: true })
    await opened(this.#connection, stream, (open) => bool(open, 'existed'), options)
    return new TaskOutput(this.#connection, stream, options.after)
  }

  /** Runs a command to its end and keeps the beginning and the end of its output (`maxBytes` together, default 1 MiB). */
  async exec(command: Bytes, options: CommandOptions & { maxBytes?: number }): Promise<CommandResult> {
    const task = await this.start(command, options)
    const { stdout, stderr, omitted } = await collect(task, options.maxBytes)
    return { ...(await task.exit), output: stdout, stderr, omitted }
  }

  /** Ends the shell, and the command that runs in it. Background jobs that have left its foreground live on. */
  close(options: CallOptions = {}): Promise<void> {
    return call(this.#connection, 'shell.close', { id: this.id }, () => undefined, options)
  }
}

export async function openShell(
  connection: RunnerConnection,
  options: OpenShellOptions,
): Promise<RunnerShell> {
  const { id, shell, login, loginTimeoutMs } = options
  const body = { id, ...launchBody(options), shell, login, loginTimeoutMs }
  const check = (result: CborMap): { shell?: string; existed: boolean } => ({
    shell: maybeText(result, 'shell'),
    existed: bool(result, 'existed'),
  })
  return new RunnerShell(connection, options.id, await call(connection, 'shell.open', body, check, options))
}

export function listShells(connection: RunnerConnection, options: CallOptions = {}): Promise<ShellInfo[]> {
  const one = (body: CborMap): ShellInfo => ({
    id: text(body, 'id'),
    pid: maybeInt(body, 'pid'),
    shell: maybeText(body, 'shell'),
    cwd: maybeBytes(body, 'cwd'),
    running: maybeText(body, 'running'),
    queued: int(body, 'queued'),
  })
  return call(connection, 'shell.list', {}, (body) => maps(body, 'shells').map(one), options)
}

/** Takes all output of a task, in bounded memory. */
export async function collect(
  task: TaskOutput,
  maxBytes = 1024 * 1024,
): Promise<{ stdout: Buffer; stderr: Buffer; omitted: number }> {
  const kept = { stdout: new HeadTail(maxBytes), stderr: new HeadTail(maxBytes) }
  for (;;) {
    const event = await task.next()
    if (event === undefined) break
    if (event.type === 'output') kept[event.channel].push(event.data)
  }
  const [stdout, stderr] = [kept.stdout.result(), kept.stderr.result()]
  return {
    stdout: Buffer.from(stdout.bytes.buffer),
    stderr: Buffer.from(stderr.bytes.buffer),
    omitted: stdout.omitted + stderr.omitted,
  }
}

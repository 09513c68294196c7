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
  /** Chosen by the caller. An open shell with this id is found again. */
  id: string
  /** Default: bash, or sh if there is no bash. */
  shell?: 'bash' | 'sh'
  /** Loads the user's profile first. A profile that breaks the shell is skipped: see `loginSkipped` of the first command. */
  login?: boolean
  /** The timeout of the profile. Default 5 s, at most a minute. */
  loginTimeoutMs?: number
}

export interface ShellInfo {
  id: string
  pid?: number
  shell?: string
  cwd?: Uint8Array
  running?: string
  queued: number
}

export interface CommandOptions extends ReadOptions, CallOptions {
  /** Chosen by the caller. A repeated call does not run the command again. */
  id: string
  /** Ends the command, not the shell. It starts when the shell reaches the command. */
  timeoutMs?: number
  /** Separates stdout and stderr, which loses their relative order. */
  separate?: boolean
  cols?: number
  rows?: number
  ringBytes?: number
  /** The command ends with this connection; the shell does not. */
  bound?: boolean
}

export interface CommandResult extends ProcessExit {
  /** stdout and stderr in order, or only stdout if they are separated. */
  output: Buffer
  stderr: Buffer
  /** The number of bytes omitted from the middle. */
  omitted: number
}

export class RunnerShell {
  readonly id: string
  readonly shell: string | undefined
  readonly existed: boolean
  readonly #connection: RunnerConnection

  constructor(connection: RunnerConnection, id: string, open: { shell?: string; existed: boolean }) {
    this.#connection = connection
    this.id = id
    this.shell = open.shell
    this.existed = open.existed
  }

  /** Queues a command and follows its output. A shell runs its commands one at a time. */
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

  /** Runs a command to the end, and keeps the beginning and the end of its output (`maxBytes` in total, default 1 MiB). */
  async exec(command: Bytes, options: CommandOptions & { maxBytes?: number }): Promise<CommandResult> {
    const task = await this.start(command, options)
    const { stdout, stderr, omitted } = await collect(task, options.maxBytes)
    return { ...(await task.exit), output: stdout, stderr, omitted }
  }

  /** Ends the shell and its running command. Detached background jobs continue. */
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

/** Collects the output of a task, in bounded memory. */
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

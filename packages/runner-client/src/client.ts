/**
 * The runner's client: all operations of protocol/runner.md, typed, over any byte stream.
 *
 * All state is in the runner. After a lost connection, connect again and attach to the same ids: processes, shells and their
 * output are still there. `welcome.boot` tells whether it is the same runner.
 */
import { connect as connectSocket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type CallOptions, call } from './calls.ts'
import type { CborMap } from './cbor.ts'
import { type ConnectOptions, RunnerConnection } from './connection.ts'
import type { Content } from './files.ts'
import { RunnerFiles } from './files.ts'
import { dial, type ListeningPort, listPorts, type PortsChange, watchPorts } from './ports.ts'
import {
  type AttachOptions,
  attach,
  listTasks,
  type ProcessExit,
  type RunnerProcess,
  type StartOptions,
  startDetached,
  startProcess,
  type TaskInfo,
  type TaskOutput,
  waitFor,
} from './processes.ts'
import { int, maybeInt } from './schema.ts'
import {
  collect,
  listShells,
  type OpenShellOptions,
  openShell,
  type RunnerShell,
  type ShellInfo,
} from './shells.ts'

export interface RunOptions extends Omit<StartOptions, 'stdin' | 'after' | 'until'> {
  /** Input for the process, followed by end-of-file. */
  input?: Content
  /** How many bytes of each stream are kept, half from the beginning and half from the end. Default 1 MiB. */
  maxBytes?: number
}

export interface RunResult extends ProcessExit {
  stdout: Buffer
  stderr: Buffer
  omitted: number
}

export interface RunnerStats {
  uptimeMs: number
  rssBytes?: number
  connections: number
  tasks: number
  running: number
  shells: number
  processes?: number
  memoryBytes?: number
  memoryLimitBytes?: number
  cpuUsec?: number
  oomKills?: number
}

export class RunnerClient {
  readonly connection: RunnerConnection
  readonly files: RunnerFiles

  constructor(connection: RunnerConnection) {
    this.connection = connection
    this.files = new RunnerFiles(connection)
  }

  /** Connects over any byte stream: a socket, or a bridge's stdin and stdout. */
  static async connect(stream: Duplex, options?: ConnectOptions): Promise<RunnerClient> {
    return new RunnerClient(await RunnerConnection.connect(stream, options))
  }

  static connectUnix(path: string, options?: ConnectOptions): Promise<RunnerClient> {
    return RunnerClient.connect(connectSocket(path), options)
  }

  start(options: StartOptions): Promise<RunnerProcess> {
    return startProcess(this.connection, options)
  }

  startDetached(options: Omit<StartOptions, 'stdin'>): Promise<{ pid: number; existed: boolean }> {
    return startDetached(this.connection, options)
  }

  /** Runs a process to the end, and keeps the beginning and the end of its output. */
  async run(options: RunOptions): Promise<RunResult> {
    const { input, maxBytes, ...rest } = options
    const process = await this.start({ ...rest, stdin: input !== undefined })
    const feeding = input === undefined ? undefined : feed(process, input)
    const output = await collect(process, maxBytes)
    const exit = await process.exit
    await feeding
    return { ...exit, ...output }
  }

  attach(id: string, options?: AttachOptions): Promise<TaskOutput> {
    return attach(this.connection, id, options)
  }

  wait(id: string, options?: CallOptions): Promise<ProcessExit> {
    return waitFor(this.connection, id, options)
  }

  /** `group` also reaches all descendants. For a shell command, KILL ends the command and keeps the shell. */
  signal(id: string, signal: string, options: CallOptions & { group?: boolean } = {}): Promise<void> {
    return this.#plain('signal', { id, signal, group: options.group }, options)
  }

  resize(id: string, size: { cols: number; rows: number }, options?: CallOptions): Promise<void> {
    return this.#plain('resize', { id, ...size }, options)
  }

  list(options?: CallOptions): Promise<TaskInfo[]> {
    return listTasks(this.connection, options)
  }

  /** Drops the record of an ended task. Its id is not run again. */
  forget(id: string, options?: CallOptions): Promise<void> {
    return this.#plain('forget', { id }, options)
  }

  openShell(options: OpenShellOptions): Promise<RunnerShell> {
    return openShell(this.connection, options)
  }

  listShells(options?: CallOptions): Promise<ShellInfo[]> {
    return listShells(this.connection, options)
  }

  dial(port: number, options?: CallOptions): Promise<Duplex> {
    return dial(this.connection, port, options)
  }

  ports(options?: CallOptions): Promise<ListeningPort[]> {
    return listPorts(this.connection, options)
  }

  watchPorts(
    options?: CallOptions,
  ): Promise<{ ports: ListeningPort[]; changes: AsyncGenerator<PortsChange, void, void> }> {
    return watchPorts(this.connection, options)
  }

  stats(options?: CallOptions): Promise<RunnerStats> {
    return call(this.connection, 'stats', {}, statsOf, options)
  }

  ping(timeoutMs?: number): Promise<void> {
    return this.connection.ping(timeoutMs)
  }

  /** Ends the connection. Programs continue. */
  close(): void {
    this.connection.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #plain(op: string, body: CborMap, options?: CallOptions): Promise<void> {
    return call(this.connection, op, body, () => undefined, options)
  }
}

/** It is not an error if the process ends before it has read all its input. */
async function feed(process: RunnerProcess, input: Content): Promise<void> {
  if (typeof input === 'string' || input instanceof Uint8Array) await process.write(input)
  else for await (const chunk of input) await process.write(chunk)
  await process.endStdin()
}

function statsOf(body: CborMap): RunnerStats {
  return {
    uptimeMs: int(body, 'uptimeMs'),
    rssBytes: maybeInt(body, 'rssBytes'),
    connections: int(body, 'connections'),
    tasks: int(body, 'tasks'),
    running: int(body, 'running'),
    shells: int(body, 'shells'),
    processes: maybeInt(body, 'processes'),
    memoryBytes: maybeInt(body, 'memoryBytes'),
    memoryLimitBytes: maybeInt(body, 'memoryLimitBytes'),
    cpuUsec: maybeInt(body, 'cpuUsec'),
    oomKills: maybeInt(body, 'oomKills'),
  }
}

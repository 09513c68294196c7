import type { AllCapabilities, Capabilities, Parts } from './capabilities.ts'
import type { Bytes, BytesSource, CallOptions } from './common.ts'
import type { SandboxFiles } from './files.ts'
import type {
  CommandResult,
  DetachedCommandOptions,
  ProcessHandle,
  ProcessInfo,
  RunCommandOptions,
  SpawnOptions,
} from './process.ts'
import type { SandboxInfo, SandboxStatus } from './provider.ts'
import type { OpenShellOptions, OpenTerminalOptions, SandboxShell, SandboxTerminal } from './shell.ts'

/**
 * One sandbox. The handle is bound to one incarnation: after a stop its calls throw `not_running`, and after a
 * restart or replacement by another caller they throw `interrupted`. A handle never reaches a successor by accident.
 */
export type SandboxHandle<C extends Capabilities = AllCapabilities> = SandboxCore<C> & Parts<C, 'sandbox'>

/** The methods of every provider. Use `SandboxCore` as the parameter type for code that needs no ability. */
export interface SandboxCore<C extends Capabilities = Capabilities> {
  /** `provider:sandboxId`. `provider.get` accepts it. */
  readonly id: string
  /** The provider's own id. */
  readonly sandboxId: string
  /** The provider's name. */
  readonly provider: string
  readonly name?: string
  readonly capabilities: C
  /** An absolute path inside the sandbox. Commands run here, and relative paths start here. */
  readonly workdir: string

  /** Does not count as activity: it neither wakes the sandbox nor extends its lifetime. */
  status(options?: CallOptions): Promise<SandboxStatus>
  info(options?: CallOptions): Promise<SandboxInfo>

  /** Runs a program and waits for its exit. With `detached: true`, starts it and returns its process handle. */
  runCommand(options: RunCommandOptions): Promise<CommandResult>
  runCommand(options: DetachedCommandOptions): Promise<ProcessHandle<C>>
  /** Starts a program and returns once it runs. The signal cancels the start, not the program. */
  spawn(options: SpawnOptions): Promise<ProcessHandle<C>>

  readonly files: SandboxFiles<C>
  readFile(remotePath: string, options?: CallOptions): Promise<Bytes>
  writeFile(remotePath: string, content: BytesSource, options?: CallOptions): Promise<void>
  /** Copies a local file into the sandbox, as a stream. */
  uploadFile(localPath: string, remotePath: string, options?: CallOptions): Promise<void>
  /** Copies a file of the sandbox to this machine, as a stream. The local file is written atomically. */
  downloadFile(remotePath: string, localPath: string, options?: CallOptions): Promise<void>

  /**
   * A view for an agent's tools. It can work in the sandbox but cannot end, copy or expose it, or read this machine.
   */
  restricted(): RestrictedSandbox<C>

  /** Deletes the sandbox and its disk. Returns false if it does not exist. */
  destroy(options?: CallOptions): Promise<boolean>
  /** For `await using`: stops the sandbox if the provider can stop it, never destroys it. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The methods that `restricted()` keeps. */
export type RestrictedSandbox<C extends Capabilities = AllCapabilities> = Pick<
  SandboxCore<C>,
  | 'id'
  | 'sandboxId'
  | 'provider'
  | 'name'
  | 'capabilities'
  | 'workdir'
  | 'status'
  | 'runCommand'
  | 'spawn'
  | 'files'
  | 'readFile'
  | 'writeFile'
> &
  Parts<Pick<C, keyof C & RestrictedAbility>, 'sandbox'>

export type RestrictedAbility = 'reattach' | 'shell' | 'terminal'

export interface SandboxReattach<C extends Capabilities> {
  /** Throws `not_found` if the id is unknown or its record has been removed. */
  getProcess(execId: string, options?: CallOptions): Promise<ProcessHandle<C>>
  listProcesses(options?: CallOptions): Promise<ProcessInfo[]>
}

export interface SandboxShells {
  openShell(options?: OpenShellOptions): Promise<SandboxShell>
}

export interface SandboxTerminals {
  openTerminal(options?: OpenTerminalOptions): Promise<SandboxTerminal>
}

export interface SandboxEndpoint {
  url: string
  /** Send these with every request, for example access tokens. Often empty. */
  headers: Record<string, string>
}

export interface SandboxPorts {
  /** The address of a port of the sandbox. Does not wait until a program listens there. */
  getEndpoint(port: number, options?: CallOptions): Promise<SandboxEndpoint>
  /** The URL of `getEndpoint`. Sufficient if the provider needs no headers. */
  getUrl(port: number, options?: CallOptions): Promise<string>
}

export interface SandboxStop {
  /** Ends all processes and keeps the disk. Does nothing if the sandbox is stopped. */
  stop(options?: CallOptions): Promise<void>
  /** Starts the sandbox and binds this handle to the new incarnation. Does nothing if it runs. */
  start(options?: CallOptions): Promise<void>
}

export interface SandboxPause {
  pause(options?: CallOptions): Promise<void>
  resume(options?: CallOptions): Promise<void>
}

export interface SnapshotOptions extends CallOptions {
  name?: string
}

export interface SandboxSnapshots {
  /** Saves the disk. The environment variables given to `create` are not included. */
  snapshot(options?: SnapshotOptions): Promise<{ snapshotId: string }>
}

export interface ForkOptions extends CallOptions {
  /** Default 1. */
  count?: number
}

export interface SandboxFork<C extends Capabilities> {
  /** Starts copies with the current disk. A copy that failed is represented by its error. */
  fork(options?: ForkOptions): Promise<Array<SandboxHandle<C> | Error>>
}

export interface SandboxLifetime {
  /** The sandbox lives at least this long from now. Never shortens the lifetime; calls do not add up. */
  extendTimeout(ms: number, options?: CallOptions): Promise<void>
}

export interface SandboxActivity {
  /** Resets the idle timer. Does not start a stopped sandbox. */
  refreshActivity(options?: CallOptions): Promise<void>
}

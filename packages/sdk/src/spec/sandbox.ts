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
 * One sandbox. The handle is bound to one incarnation of it: when the sandbox is stopped it throws `not_running`,
 * and after somebody else has started or replaced it, `interrupted`. It never talks to a successor by accident.
 */
export type SandboxHandle<C extends Capabilities = AllCapabilities> = SandboxCore<C> & Parts<C, 'sandbox'>

/** What every provider has. `SandboxCore` alone is the right parameter type for code that needs no ability. */
export interface SandboxCore<C extends Capabilities = Capabilities> {
  /** `provider:sandboxId`: says where it belongs; `provider.get` takes it. */
  readonly id: string
  /** The provider's own id. */
  readonly sandboxId: string
  /** The provider's name. */
  readonly provider: string
  readonly name?: string
  readonly capabilities: C
  /** An absolute path inside the sandbox: where commands run and relative paths start. */
  readonly workdir: string

  /** Looking is not activity: it neither wakes the sandbox nor puts off its end. */
  status(options?: CallOptions): Promise<SandboxStatus>
  info(options?: CallOptions): Promise<SandboxInfo>

  /** Runs a program to its end. With `detached: true`, starts it and returns its process handle. */
  runCommand(options: RunCommandOptions): Promise<CommandResult>
  runCommand(options: DetachedCommandOptions): Promise<ProcessHandle<C>>
  /** Starts a program and returns as soon as it runs. The signal cancels the start, not the program. */
  spawn(options: SpawnOptions): Promise<ProcessHandle<C>>

  readonly files: SandboxFiles<C>
  readFile(remotePath: string, options?: CallOptions): Promise<Bytes>
  writeFile(remotePath: string, content: BytesSource, options?: CallOptions): Promise<void>
  /** A file of this machine into the sandbox, streamed. */
  uploadFile(localPath: string, remotePath: string, options?: CallOptions): Promise<void>
  /** A file of the sandbox to this machine, streamed; the local file appears whole or not at all. */
  downloadFile(remotePath: string, localPath: string, options?: CallOptions): Promise<void>

  /** A view for an agent's tools: it can work in the sandbox, and cannot end it, copy it, open it or read this machine. */
  restricted(): RestrictedSandbox<C>

  /** For good, with its disk. False when it was gone already. */
  destroy(options?: CallOptions): Promise<boolean>
  /** `await using`: stops where the provider can stop, never destroys. */
  [Symbol.asyncDispose](): Promise<void>
}

/** What `restricted()` leaves. */
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
  /** Throws `not_found` for an id that was never there or whose record is gone. */
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
  /** To be sent with every request: tokens that the provider asks for. Often empty. */
  headers: Record<string, string>
}

export interface SandboxPorts {
  /** How to reach what listens on a port of the sandbox. Does not wait for anything to listen. */
  getEndpoint(port: number, options?: CallOptions): Promise<SandboxEndpoint>
  /** Only the URL of `getEndpoint`; enough where the provider asks for no headers. */
  getUrl(port: number, options?: CallOptions): Promise<string>
}

export interface SandboxStop {
  /** Ends all processes and keeps the disk. Does nothing when it is stopped. */
  stop(options?: CallOptions): Promise<void>
  /** Starts it again and binds this handle to the new incarnation. Does nothing when it runs. */
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
  /** Saves the disk; the environment variables given at create are not part of it. */
  snapshot(options?: SnapshotOptions): Promise<{ snapshotId: string }>
}

export interface ForkOptions extends CallOptions {
  /** Default 1. */
  count?: number
}

export interface SandboxFork<C extends Capabilities> {
  /** Running copies with the disk of this moment; one that could not be made is its error, in its place. */
  fork(options?: ForkOptions): Promise<Array<SandboxHandle<C> | Error>>
}

export interface SandboxLifetime {
  /** From now on the sandbox lives at least this long. Never shortens, never adds up. */
  extendTimeout(ms: number, options?: CallOptions): Promise<void>
}

export interface SandboxActivity {
  /** Counts as use: from now on the provider waits its whole idle time again. Does not start what is stopped. */
  refreshActivity(options?: CallOptions): Promise<void>
}

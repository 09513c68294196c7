import type { Capabilities, Part } from './capabilities.ts'
import type { Bytes, BytesSource, CallOptions } from './common.ts'
import type { SandboxFiles, SandboxFilesCore, UploadFileOptions } from './files.ts'
import type { Network } from './network.ts'
import type {
  CommandResult,
  DetachedCommandOptions,
  ProcessCore,
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
 *
 * Without a type argument it holds the handle of any provider: a method of a missing ability throws `unsupported`.
 */
export type SandboxHandle<C extends Capabilities = Capabilities> = SandboxCore<
  C,
  ProcessHandle<C>,
  SandboxFiles<C>
> &
  SandboxAbilities<C>

/**
 * The methods of every provider. Use `SandboxCore` as the parameter type for code that needs no ability, or asks
 * `supports()` before it uses one. `Process` and `Files` are set by `SandboxHandle`.
 */
export interface SandboxCore<
  C extends Capabilities = Capabilities,
  Process extends ProcessCore = ProcessCore,
  Files extends SandboxFilesCore = SandboxFilesCore,
> {
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
  /**
   * Folders that the sandbox's user may write to, with everything below them. Others may be writable, too. Undefined if
   * the provider does not know.
   */
  readonly writablePaths?: readonly string[]
  /**
   * The ports given at `create`, in ascending order. With a provider that must know all exposed ports, also those that
   * `getEndpoint` has added.
   */
  readonly ports: readonly number[]
  /**
   * The network that this handle found or has set. Secrets are in it by name only. Undefined if the provider does not
   * know.
   */
  readonly network?: Network

  /** Does not count as activity: it neither wakes the sandbox nor extends its lifetime. */
  status(options?: CallOptions): Promise<SandboxStatus>
  info(options?: CallOptions): Promise<SandboxInfo>

  /** Runs a program and waits for its exit. With `detached: true`, starts it and returns its process handle. */
  // The usual form comes last, because compilers report wrong options against the last overload.
  runCommand(options: DetachedCommandOptions): Promise<Process>
  runCommand(options: RunCommandOptions): Promise<CommandResult>
  /** Starts a program and returns once it runs. */
  spawn(options: SpawnOptions): Promise<Process>

  readonly files: Files
  readFile(remotePath: string, options?: CallOptions): Promise<Bytes>
  writeFile(remotePath: string, content: BytesSource, options?: CallOptions): Promise<void>
  /** Copies a local file into the sandbox, as a stream. */
  uploadFile(localPath: string, remotePath: string, options?: UploadFileOptions): Promise<void>
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

/** The methods that abilities add to a sandbox; see `AbilityParts`. */
export type SandboxAbilities<C extends Capabilities = Capabilities> = RestrictedAbilities<C> &
  Part<C, 'ports', 'sandbox'> &
  Part<C, 'stop', 'sandbox'> &
  Part<C, 'pause', 'sandbox'> &
  Part<C, 'snapshot', 'sandbox'> &
  Part<C, 'fork', 'sandbox'> &
  Part<C, 'lifetime', 'sandbox'> &
  Part<C, 'activity', 'sandbox'> &
  Part<C, 'egress', 'sandbox'>

/** The methods that `restricted()` keeps. */
export type RestrictedSandbox<C extends Capabilities = Capabilities> = Pick<
  SandboxCore<C, ProcessHandle<C>, SandboxFiles<C>>,
  | 'id'
  | 'sandboxId'
  | 'provider'
  | 'name'
  | 'workdir'
  | 'writablePaths'
  | 'status'
  | 'runCommand'
  | 'spawn'
  | 'files'
  | 'readFile'
  | 'writeFile'
> & {
  readonly capabilities: Pick<C, keyof C & RestrictedAbility>
} & RestrictedAbilities<C>

type RestrictedAbilities<C extends Capabilities> = Part<C, 'reattach', 'sandbox'> &
  Part<C, 'shell', 'sandbox'> &
  Part<C, 'terminal', 'sandbox'>

/** `stdin` and `watch` add no method to the sandbox itself, but determine what its processes and files can do. */
export type RestrictedAbility =
  | 'reattach'
  | 'shell'
  | 'terminal'
  | 'stdin'
  | 'mergedOutput'
  | 'orderedOutput'
  | 'watch'

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
  /** This process forwards the port: the URL works only while it runs, and another process gets another URL. */
  forwarded?: true
}

/**
 * `http` and `ws` use TLS if the endpoint has it: the URL begins with `https:` or `wss:` then. `https` and `wss` require
 * TLS, and throw `unsupported` without it.
 */
export type EndpointProtocol = 'http' | 'https' | 'ws' | 'wss'

export interface EndpointOptions extends CallOptions {
  /** The scheme of the URL. Default: `http`. */
  protocol?: EndpointProtocol
}

export interface SandboxPorts {
  /** The address of a port of the sandbox. Does not wait until a program listens there. */
  getEndpoint(port: number, options?: EndpointOptions): Promise<SandboxEndpoint>
  /** The URL of `getEndpoint`. Sufficient if the provider needs no headers. */
  getUrl(port: number, options?: EndpointOptions): Promise<string>
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
  /**
   * Saves the disk. The environment variables given to `create` are not included. Ends running programs if the
   * provider's `snapshotInterrupts` is true.
   */
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

export interface SandboxEgress {
  /**
   * Replaces the whole network at once. New connections follow it as soon as the call resolves, and open connections
   * that it no longer allows are closed.
   */
  setNetwork(network: Network, options?: CallOptions): Promise<void>
}

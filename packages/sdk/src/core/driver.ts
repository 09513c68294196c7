import type { ByteSource } from '../shared/output/bytes.ts'
import type {
  CallOptions,
  Capabilities,
  CreateOption,
  CreateSandboxOpts,
  FileChange,
  FileEntry,
  FileStat,
  Isolation,
  ListSandboxesOpts,
  Network,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessEvent,
  ProcessExit,
  ProcessInfo,
  ProcessSignal,
  ProcessStatus,
  SandboxEndpoint,
  SandboxInfo,
  SandboxPage,
  SandboxShell,
  SandboxTerminal,
  SnapshotInfo,
} from '../spec/index.ts'
import type { NormalNetwork } from './network/normal.ts'

/**
 * The interface that a provider's author implements. A driver gets checked and complete arguments and does the raw
 * work.
 * `DriverProvider` adds the contract: validation, cancellation, ability checks, collected results, streams,
 * restricted views and names.
 *
 * Optional members belong to abilities: a driver has them if and only if its `capabilities` declare the ability.
 */
export interface ProviderDriver<C extends Capabilities = Capabilities> {
  readonly name: string
  readonly isolation: Isolation
  readonly capabilities: C
  readonly createOptions: readonly CreateOption[]
  /** Whether `snapshot` and `fork` restart the sandbox, which ends its programs. False without these abilities. */
  readonly snapshotInterrupts: boolean
  /** Must clean up before it rejects. A taken name throws `conflict`. */
  create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver>
  /** Throws `not_found`. With `resume`, starts a stopped sandbox; without, only binds to it. */
  open(sandboxId: string, options: { resume: boolean }, call: CallOptions): Promise<SandboxDriver>
  /** Returns the id of the live sandbox with this name. */
  find(name: string, call: CallOptions): Promise<string | undefined>
  list(filter: ListSandboxesOpts, call: CallOptions): Promise<SandboxPage>
  destroy(sandboxId: string, call: CallOptions): Promise<boolean>
  health(call: CallOptions): Promise<boolean>
  listSnapshots?(call: CallOptions): Promise<SnapshotInfo[]>
  deleteSnapshot?(snapshotId: string, call: CallOptions): Promise<boolean>
}

/** Options with a checked environment. */
export type Checked<Options extends { env?: unknown }> = Omit<Options, 'env'> & {
  readonly env: Readonly<Record<string, string>>
}

export interface CreateSpec
  extends Omit<CreateSandboxOpts, 'signal' | 'timeout' | 'labels' | 'envVars' | 'network'> {
  readonly labels: Readonly<Record<string, string>>
  readonly envVars: Readonly<Record<string, string>>
  /** Checked and in its normal form. A policy only with the ability `egress`. */
  readonly network?: NormalNetwork
  /** Keep the sandbox in `creating` until `ready()` is called, so that other callers wait for it. */
  readonly deferReady: boolean
}

export interface SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths?: readonly string[]
  /** The ports that the sandbox was created with. */
  readonly ports?: readonly number[]
  /** The network that was last found or set; undefined if it is unknown. */
  readonly network?: Network
  readonly files: FilesDriver
  info(call: CallOptions): Promise<SandboxInfo>
  /** Resolves when the program runs. Rejects with `command_not_found`, `cwd_not_found` and so on. */
  spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver>
  destroy(call: CallOptions): Promise<boolean>
  ready?(call: CallOptions): Promise<void>

  getProcess?(execId: string, call: CallOptions): Promise<ProcessDriver>
  listProcesses?(call: CallOptions): Promise<ProcessInfo[]>
  openShell?(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell>
  openTerminal?(
    options: Required<Pick<OpenTerminalOptions, 'cols' | 'rows'>> & Checked<OpenTerminalOptions>,
    call: CallOptions,
  ): Promise<SandboxTerminal>
  getEndpoint?(port: number, call: CallOptions): Promise<SandboxEndpoint>
  stop?(call: CallOptions): Promise<void>
  start?(call: CallOptions): Promise<void>
  pause?(call: CallOptions): Promise<void>
  resume?(call: CallOptions): Promise<void>
  snapshot?(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }>
  fork?(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>>
  extendTimeout?(ms: number, call: CallOptions): Promise<void>
  refreshActivity?(call: CallOptions): Promise<void>
  /** Atomic: if it rejects, the earlier network is in force. */
  setNetwork?(network: NormalNetwork, call: CallOptions): Promise<void>
}

export interface ProcessSpec {
  readonly cmd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  /** After this time the driver kills the whole process tree and sets `timedOut` in the exit event. */
  readonly timeoutMs?: number
  /**
   * `empty`: immediate end-of-file. `pipe`: calls of `write` and `closeStdin` follow. Chunks: sent, then end-of-file.
   */
  readonly stdin: 'empty' | 'pipe' | AsyncIterable<Uint8Array>
  readonly detached: boolean
  /** Give the program one pipe for stdout and stderr. All its events are `stdout`. Only with `mergedOutput`. */
  readonly merged?: boolean
  /** The caller immediately reads the output from its beginning, so the driver can save a second request. */
  readonly reading: boolean
  readonly execId?: string
  readonly outputBufferBytes: number
}

export interface ProcessDriver {
  readonly execId: string
  readonly pid?: number
  events(after: number, signal?: AbortSignal): AsyncIterable<ProcessEvent>
  /** Signals the whole process tree. */
  kill(signal: ProcessSignal, call: CallOptions): Promise<boolean>
  status(call: CallOptions): Promise<ProcessStatus>
  /** Waits for the exit without reading output. Without this method, output is read and discarded. */
  waitForExit?(call: CallOptions): Promise<ProcessExit>
  /** Settles at the end of the process, if the driver learns of that without a request. */
  readonly whenEnded?: Promise<unknown>
  write?(data: Uint8Array, call: CallOptions): Promise<void>
  closeStdin?(call: CallOptions): Promise<void>
}

/**
 * The content of a file as an iterable or, if the driver supports it, as a `ByteSource`. Read it once, in one of the
 * two ways.
 */
export type FileBytes = AsyncIterable<Uint8Array> & Partial<ByteSource>

export interface FilesDriver {
  readStream(path: string, range: { start: number; end?: number }, call: CallOptions): Promise<FileBytes>
  /** Creates parent folders. Atomic unless `append`. */
  write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    call: CallOptions,
  ): Promise<void>
  list(path: string, options: { recursive: boolean }, call: CallOptions): Promise<FileEntry[]>
  stat(path: string, options: { follow: boolean }, call: CallOptions): Promise<FileStat>
  mkdir(path: string, options: { recursive: boolean; mode?: number }, call: CallOptions): Promise<void>
  rename(from: string, to: string, call: CallOptions): Promise<void>
  rm(path: string, options: { recursive: boolean; force: boolean }, call: CallOptions): Promise<void>
  chmod(path: string, mode: number, call: CallOptions): Promise<void>
  symlink(target: string, path: string, call: CallOptions): Promise<void>
  readlink(path: string, call: CallOptions): Promise<string>
  /**
   * Makes `path` a link to a read-only copy of a file of this machine, which every user can run. Replaces an existing
   * file. Resolves to false if the file has to be copied into the sandbox instead.
   */
  shareFile?(localPath: string, path: string, call: CallOptions): Promise<boolean>
  watch?(path: string, options: { recursive: boolean }, call: CallOptions): Promise<AsyncIterable<FileChange>>
}

import type { CallOptions, ProcessHandle, SandboxHandle, SandboxStatus } from '@sandkasten/sdk'

/** Where the tools get their sandbox from. It outlives starts and stops of the sandbox. */
export interface SandboxSource extends AsyncDisposable {
  /**
   * Runs `work` in the running sandbox: connects to it, starts it, or restores it from its last snapshot. If the
   * sandbox had ended before the work began, opens it again and repeats the work.
   */
  use<T>(work: (sandbox: OpenSandbox) => Promise<T>, options?: UseOptions): Promise<T>
  /** What is known about the sandbox. Does not start it. */
  state(options?: StateOptions): Promise<SandboxState>
  /** Saves the disk. */
  snapshot(options?: CallOptions & { name?: string }): Promise<{ snapshotId: string }>
}

export interface UseOptions extends CallOptions {
  /** A lost connection repeats the work, too: it changes nothing in the sandbox. */
  readonly repeatable?: boolean
  /** Called with what is done to make the sandbox run, such as `restoring “web” from its snapshot`. */
  readonly onProgress?: (message: string) => void
  /** Called before the work, each time that it begins. */
  readonly onOpen?: (incarnation: Incarnation) => void
}

export interface StateOptions extends CallOptions {
  /** Ask the provider, instead of returning what is known. */
  readonly refresh?: boolean
}

export interface OpenSandbox {
  readonly handle: SandboxHandle
  /** Commands run here, and relative paths start here. */
  readonly directory: string
  readonly incarnation: Incarnation
  /** Aborts with the call, or when the sandbox ends or is replaced. */
  readonly signal: AbortSignal
  /** Processes of this incarnation that were started here, by id. */
  readonly processes: Map<string, StartedProcess>
}

export interface StartedProcess {
  readonly process: ProcessHandle
  readonly cmd: string
}

/** One start of the sandbox. A caller that compares two of them knows what was lost between them. */
export interface Incarnation {
  /** Counts starts. */
  readonly count: number
  /** The provider's id. Another one: the sandbox was created again, from its last snapshot. */
  readonly sandboxId: string
  /** When that snapshot was made, as an ISO date. */
  readonly snapshotAt?: string
}

export interface SandboxState {
  readonly name: string
  readonly provider: string
  readonly status: SandboxStatus
  readonly directory?: string
  /** ISO dates. */
  readonly expiresAt?: string
  readonly snapshotAt?: string
  /** Why the sandbox failed, or could not be asked. */
  readonly problem?: string
}

type SandboxStatus =
  | 'creating'
  | 'running'
  | 'stopped'
  | 'failed'
  | 'destroyed'

type CommandResult = {
  exitCode: number
  stdout: string
  stderr: string
}

abstract class SandboxHandle {
  /** Provider-assigned unique ID (e.g. 'sbx_abc123') */
  abstract readonly sandboxId: string

  /** Current status */
  abstract status(): Promise<SandboxStatus>

  // ── Command execution ─────────────────────────────

  /** Run a command. Blocks until exit unless detached: true.
   *  detached commands run in background (for servers). */
  abstract runCommand(opts: {
    cmd: string
    args?: string[]
    env?: Record<string, string>
    cwd?: string
    detached?: boolean
  }): Promise<CommandResult>

  // ── Port exposure ─────────────────────────────────

  /** Get public HTTPS URL for a port running inside the sandbox.
   *  Vercel: sandbox.domain(port)
   *  Daytona: sandbox.getPreviewLink(port).url */
  abstract getUrl(port: number): Promise<string>

  // ── Filesystem ────────────────────────────────────

  /** Write content to a file inside the sandbox */
  abstract writeFile(
    remotePath: string,
    content: Buffer | string,
  ): Promise<void>

  /** Read a file from the sandbox */
  abstract readFile(remotePath: string): Promise<Buffer>

  /** Upload a local file to the sandbox (for large files like
   *  tarballs where you don't want to load into memory) */
  abstract uploadFile(
    localPath: string,
    remotePath: string,
  ): Promise<void>

  // ── Lifecycle ─────────────────────────────────────

  /** Stop the sandbox (preserves state for resume) */
  abstract stop(): Promise<void>

  /** Extend timeout before auto-shutdown.
   *  Vercel: sandbox.extendTimeout(ms)
   *  Daytona: no-op (no timeout by default) */
  abstract extendTimeout(ms: number): Promise<void>

  /** Save sandbox state as a snapshot for fast resume.
   *  Returns provider-native snapshot ID. */
  abstract snapshot(): Promise<{ snapshotId: string }>

  /** Permanently destroy this sandbox */
  abstract destroy(): Promise<void>
}

export type { SandboxStatus, CommandResult }
export { SandboxHandle }

import type { Duplex } from 'node:stream'
import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import type { CallOptions, OpenTerminalOptions, ProcessInfo, SandboxShell, SandboxTerminal } from '../../spec/index.ts'

/**
 * Sandkasten's runner as the engine's package brings it (`runnerForSsh()` of `@sandkasten/engine/ssh`). The SDK knows neither its binary nor
 * its protocol: it copies the one to the host, starts it, and hands over a stream to it.
 */
export interface SshRunner {
  /** The binary for a machine, as `uname -m` names it; undefined where there is none. */
  binary(machine: string): Promise<RunnerBinary | undefined>
  connect(stream: Duplex): Promise<RunnerSession>
}

export interface RunnerBinary {
  readonly content: Uint8Array
  /** Names it on the host, so that two versions never share one. Lower case letters and digits. */
  readonly id: string
}

/** Programs of one sandbox, over one connection to its runner. They live on when it ends. */
export interface RunnerSession {
  readonly closed: Promise<unknown>
  spawn(spec: ProcessSpec, place: RunnerPlace & { processId: string }, call: CallOptions): Promise<ProcessDriver>
  getProcess(processId: string): Promise<ProcessDriver>
  listProcesses(): Promise<ProcessInfo[]>
  openShell(options: RunnerPlace & { name: string }, call: CallOptions): Promise<SandboxShell>
  openTerminal(
    options: OpenTerminalOptions & RunnerPlace & { cols: number; rows: number; terminalId: string },
    call: CallOptions,
  ): Promise<SandboxTerminal>
  close(): void
}

export interface RunnerPlace {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

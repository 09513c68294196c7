import type { Duplex } from 'node:stream'
import type { ProcessDriver, ProcessSpec } from '../../../core/driver.ts'
import { loadVendorSdk, type VendorPackage } from '../../../shared/vendor-sdk.ts'
import type { CallOptions, ProcessInfo, SandboxShell, SandboxTerminal } from '../../../spec/index.ts'

/**
 * The part of `@sandkasten/runner-client` that we call; a type test proves that the real package fits.
 * `Client` and `Output` are opaque here: we only pass them on.
 */
export interface RunnerClientPackage<Client extends RunnerClient = RunnerClient, Output = unknown> {
  readonly RunnerClient: { connect(stream: Duplex): Promise<Client> }
  readonly RunnerPrograms: new (host: RunnerHost<Client, Output>) => RunnerPrograms<Client>
}

export interface RunnerClient {
  readonly connection: { readonly closed: Promise<unknown> }
  close(): void
}

export interface RunnerHost<Client, Output> {
  client(): Promise<Client>
  readonly bound: boolean
  readonly writers: Map<string, Output>
  oomKills(): Promise<number | undefined>
  explain?(error: unknown): Promise<unknown>
}

export interface RunnerPrograms<Client> {
  spawn(
    client: Client,
    spec: ProcessSpec,
    place: RunnerPlace & { execId: string },
    call: CallOptions,
  ): Promise<ProcessDriver>
  getProcess(execId: string): Promise<ProcessDriver>
  listProcesses(): Promise<ProcessInfo[]>
  openShell(name: string, place: RunnerPlace & { login: boolean }, call: CallOptions): Promise<SandboxShell>
  openTerminal(
    terminalId: string,
    argv: readonly string[],
    place: RunnerPlace & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal>
}

interface RunnerPlace {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

const runnerClient: VendorPackage = {
  provider: 'ssh',
  name: '@sandkasten/runner-client',
  major: 0,
  fits: ({ RunnerClient, RunnerPrograms }) =>
    typeof RunnerClient === 'function' && typeof RunnerPrograms === 'function',
}

/** Throws `sdk_missing` with the install command when the package is not installed. */
export function loadRunnerClient(): Promise<RunnerClientPackage> {
  return loadVendorSdk<RunnerClientPackage>(runnerClient, undefined)
}

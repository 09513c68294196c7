import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'

/** The part of `e2b` that we call; a type test proves that the real one fits. */
export interface E2BSdk {
  readonly Sandbox: {
    create(template: string, options: VendorCreate): Promise<VendorSandbox>
    connect(sandboxId: string, options: VendorAccess & { timeoutMs?: number }): Promise<VendorSandbox>
    getInfo(sandboxId: string, options: VendorAccess): Promise<VendorInfo>
    kill(sandboxId: string, options: VendorAccess): Promise<boolean>
    list(options: VendorAccess & VendorList): VendorPages<VendorListed>
    listSnapshots(options: VendorAccess & { limit?: number }): VendorPages<VendorSnapshot>
    deleteSnapshot(snapshotId: string, options: VendorAccess): Promise<boolean>
  }
}

/** Passed with every call: the SDK would otherwise look for them in the environment. */
export interface VendorAccess {
  apiKey: string
  apiUrl?: string
  sandboxUrl?: string
  domain?: string
  requestTimeoutMs?: number
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface VendorCreate extends VendorAccess {
  metadata: Record<string, string>
  envs: Record<string, string>
  timeoutMs?: number
  [option: string]: unknown
}

/** The vendor's egress configuration. An update replaces it; omitted fields are cleared. */
export interface VendorNetwork {
  allowOut?: string[]
  denyOut?: string[]
  rules?: Record<string, Array<{ transform: { headers: Record<string, string> } }>>
}

export interface VendorList {
  query: { metadata: Record<string, string>; state?: Array<'running' | 'paused'> }
  limit?: number
  nextToken?: string
}

export interface VendorPages<T> {
  readonly hasNext: boolean
  readonly nextToken: string | undefined
  nextItems(): Promise<T[]>
}

export interface VendorListed {
  readonly sandboxId: string
  readonly metadata: Record<string, string>
  readonly state: string
  readonly startedAt: Date
  readonly endAt: Date
}

export type VendorInfo = VendorListed

export interface VendorSnapshot {
  readonly snapshotId: string
  readonly names: string[]
}

interface CallOptions {
  requestTimeoutMs?: number
  signal?: AbortSignal
}

interface ControlOptions extends CallOptions {
  headers?: Record<string, string>
}

export interface VendorSandbox {
  readonly sandboxId: string
  readonly trafficAccessToken?: string | undefined
  readonly commands: VendorCommands
  readonly files: VendorFiles
  readonly pty: {
    sendInput(pid: number, data: Uint8Array, options?: CallOptions): Promise<void>
    resize(pid: number, size: { cols: number; rows: number }, options?: CallOptions): Promise<void>
  }
  getHost(port: number): string
  kill(options?: ControlOptions): Promise<boolean>
  pause(options?: ControlOptions & { keepMemory?: boolean }): Promise<boolean>
  connect(options?: ControlOptions & { timeoutMs?: number }): Promise<unknown>
  setTimeout(timeoutMs: number, options?: ControlOptions): Promise<void>
  updateNetwork(network: VendorNetwork, options?: ControlOptions): Promise<void>
  createSnapshot(options?: ControlOptions & { name?: string }): Promise<VendorSnapshot>
  fork(
    options?: ControlOptions & { count?: number; timeoutMs?: number },
  ): Promise<Array<VendorSandbox | Error>>
}

export interface VendorCommands {
  sendStdin(pid: number, data: Uint8Array, options?: CallOptions): Promise<void>
  closeStdin(pid: number, options?: CallOptions): Promise<void>
  kill(pid: number, options?: CallOptions): Promise<boolean>
  list(options?: CallOptions): Promise<Array<{ pid: number; tag?: string | undefined }>>
}

export interface VendorFiles {
  read(path: string, options: CallOptions & { format: 'stream' }): Promise<ReadableStream<Uint8Array>>
  write(path: string, data: ReadableStream<Uint8Array>, options?: CallOptions): Promise<unknown>
  getInfo(path: string, options?: CallOptions): Promise<{ path: string }>
  watchDir(
    path: string,
    onEvent: (event: { name: string; type: string }) => void,
    options?: CallOptions & { recursive?: boolean; timeoutMs?: number; onExit?: (error?: Error) => void },
  ): Promise<{ stop(): Promise<void> }>
}

/**
 * The SDK's own client for processes in the sandbox. The public `commands.run` uses it, but decodes the output to text, which
 * loses bytes that are not UTF-8, and takes a shell line instead of arguments. The client is a private member, so a version
 * of the SDK without it is refused.
 */
export interface ProcessRpc {
  start(request: StartRequest, options: RpcOptions): AsyncIterable<ProcessMessage>
  connect(
    request: { process: { selector: { case: 'pid'; value: number } } },
    options: RpcOptions,
  ): AsyncIterable<ProcessMessage>
}

export interface StartRequest {
  process: { cmd: string; args: string[]; envs: Record<string, string> }
  tag?: string
  stdin: boolean
  pty?: { size: { cols: number; rows: number } }
}

export interface RpcOptions {
  signal?: AbortSignal
  headers?: Record<string, string>
  /** 0: no time limit. */
  timeoutMs: number
}

export interface ProcessMessage {
  readonly event?: {
    readonly event:
      | { readonly case: 'start'; readonly value: { readonly pid: number } }
      | { readonly case: 'data'; readonly value: { readonly output: ProcessOutput } }
      | { readonly case: 'end'; readonly value: ProcessEnd }
      | { readonly case: 'keepalive' | undefined; readonly value?: unknown }
  }
}

export type ProcessOutput =
  | { readonly case: 'stdout' | 'stderr' | 'pty'; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined }

export interface ProcessEnd {
  readonly exitCode: number
  readonly exited: boolean
  /** In Go's format: `exit status 3`, `signal: killed`. */
  readonly status: string
}

export const vendorPackage: VendorPackage = {
  provider: 'e2b',
  name: 'e2b',
  major: 2,
  // Older versions lack forks or other calls that we use.
  fits: ({ Sandbox }) =>
    typeof Sandbox === 'function' && 'createSnapshot' in Sandbox && 'fork' in Sandbox && 'connect' in Sandbox,
}

export function loadSdk(given: unknown): Promise<E2BSdk> {
  return loadVendorSdk<E2BSdk>(vendorPackage, given)
}

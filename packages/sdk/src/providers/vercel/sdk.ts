import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'
import type { VercelCredentials } from './options.ts'

/** The part of `@vercel/sandbox` that we call; a type test proves that the real one fits. */
export interface VercelSdk {
  readonly Sandbox: {
    create(params: Access & CreateParams): Promise<VendorSandbox>
    get(params: Access & { name: string; resume?: boolean; signal?: AbortSignal }): Promise<VendorSandbox>
    fork(params: Access & CreateParams & { sourceSandbox: string }): Promise<VendorSandbox>
    list(params: Access & ListParams): Promise<{
      sandboxes: VendorSandboxData[]
      pagination: { next: string | null }
    }>
  }
  readonly Snapshot: {
    list(params: Access & { name?: string; cursor?: string; signal?: AbortSignal }): Promise<{
      snapshots: VendorSnapshotData[]
      pagination: { next: string | null }
    }>
    get(params: Access & { snapshotId: string; signal?: AbortSignal }): Promise<VendorSnapshot>
  }
}

/**
 * Passed with every call: the SDK would otherwise search for credentials, and prompt for them. The token is a
 * placeholder, because the SDK may exchange an OIDC token before any request; `transport.ts` sets the real one.
 */
export interface Access extends VercelCredentials {
  fetch: typeof globalThis.fetch
}

export interface CreateParams {
  name?: string
  source?: { type: 'snapshot'; snapshotId: string }
  ports?: number[]
  timeout?: number
  resources?: { vcpus: number }
  image?: string
  runtime?: string
  networkPolicy?: VendorNetworkPolicy
  env?: Record<string, string>
  tags?: Record<string, string>
  signal?: AbortSignal
  [option: string]: unknown
}

export type VendorNetworkPolicy =
  | 'allow-all'
  | 'deny-all'
  | { allow: Record<string, VendorNetworkRule[]>; subnets: { allow: string[]; deny: string[] } }

export interface VendorNetworkRule {
  match?: { path?: { startsWith: string }; method?: string[] }
  transform: Array<{ headers: Record<string, string> }>
}

export interface ListParams {
  namePrefix?: string
  sortBy?: 'name'
  sortOrder?: 'asc'
  cursor?: string
  limit?: number
  signal?: AbortSignal
}

export interface VendorSandbox {
  readonly name: string
  readonly status: string
  readonly createdAt: Date
  readonly expiresAt: Date | undefined
  readonly tags: Record<string, string> | undefined
  readonly routes: ReadonlyArray<{ url: string; subdomain: string; port: number }>
  currentSession(): VendorSession
  domain(port: number): string
  update(
    changes: { ports?: number[]; tags?: Record<string, string>; networkPolicy?: VendorNetworkPolicy },
    options?: { signal?: AbortSignal },
  ): Promise<void>
  delete(options?: { deleteOrphanSnapshots?: boolean; signal?: AbortSignal }): Promise<void>
}

/** One run of a sandbox. Unlike the sandbox, it never restarts implicitly. */
export interface VendorSession {
  readonly sessionId: string
  readonly status: string
  readonly cwd: string
  readonly timeout: number
  readonly createdAt: Date
  readonly startedAt?: Date | undefined
  runCommand(params: CommandParams & { detached: true }): Promise<VendorCommand>
  runCommand(params: CommandParams): Promise<VendorCommandFinished>
  getCommand(cmdId: string, options?: { signal?: AbortSignal }): Promise<VendorCommand>
  readFile(file: { path: string }, options?: { signal?: AbortSignal }): Promise<AsyncIterable<unknown> | null>
  writeFiles(
    files: Array<{ path: string; content: Uint8Array; mode?: number }>,
    options?: { signal?: AbortSignal },
  ): Promise<void>
  stop(options?: { signal?: AbortSignal }): Promise<unknown>
  snapshot(options?: { expiration?: number; signal?: AbortSignal }): Promise<{ readonly snapshotId: string }>
  extendTimeout(duration: number, options?: { signal?: AbortSignal }): Promise<void>
}

export interface CommandParams {
  cmd: string
  args: string[]
  env?: Record<string, string>
  signal?: AbortSignal
}

export interface VendorCommand {
  readonly cmdId: string
  readonly exitCode: number | null
  logs(options?: { signal?: AbortSignal }): AsyncIterable<{ stream: 'stdout' | 'stderr'; data: string }> & {
    close(): void
  }
}

export interface VendorCommandFinished {
  readonly exitCode: number
  stdout(): Promise<string>
}

export interface VendorSandboxData {
  name: string
  status: string
  createdAt: number
  timeout?: number | undefined
  expiresAt?: number | undefined
  currentSessionId: string
  tags?: Record<string, string> | undefined
}

export interface VendorSnapshotData {
  id: string
  status: string
  sizeBytes: number
  createdAt: number
  expiresAt?: number | undefined
  /** `manual` when a user requested it. */
  creationMethod?: string | undefined
}

export interface VendorSnapshot {
  readonly status: string
  delete(options?: { signal?: AbortSignal }): Promise<void>
}

export const vendorPackage: VendorPackage = {
  provider: 'vercel',
  name: '@vercel/sandbox',
  major: 3,
  // Version 2.0 introduced runs; before, a sandbox was one run.
  fits: ({ Sandbox, Snapshot, Session }) =>
    typeof Sandbox === 'function' && typeof Snapshot === 'function' && typeof Session === 'function',
}

export function loadSdk(given: unknown): Promise<VercelSdk> {
  return loadVendorSdk<VercelSdk>(vendorPackage, given)
}

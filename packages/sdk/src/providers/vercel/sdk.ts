import { SandboxError } from '../../errors.ts'
import type { VercelCredentials } from './credentials.ts'

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
    list(params: Access & { cursor?: string; signal?: AbortSignal }): Promise<{
      snapshots: VendorSnapshotData[]
      pagination: { next: string | null }
    }>
    get(params: Access & { snapshotId: string; signal?: AbortSignal }): Promise<VendorSnapshot>
  }
}

/** Given with every call: the SDK would otherwise look for credentials of its own, and ask people for them. */
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
  env?: Record<string, string>
  tags?: Record<string, string>
  signal?: AbortSignal
  [option: string]: unknown
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
    changes: { ports?: number[]; tags?: Record<string, string> },
    options?: { signal?: AbortSignal },
  ): Promise<void>
  delete(options?: { signal?: AbortSignal }): Promise<void>
}

/** One run of a sandbox. Unlike the sandbox, it is never started anew behind our back. */
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
}

export interface VendorSnapshot {
  readonly status: string
  delete(options?: { signal?: AbortSignal }): Promise<void>
}

export const packageName = '@vercel/sandbox'
const testedMajor = 3

/** The vendor's SDK: the caller's, or the one that is installed. It is loaded when it is first needed, never before. */
export async function loadSdk(given: unknown): Promise<VercelSdk> {
  const sdk = given ?? (await imported())
  const { Sandbox, Snapshot, Session } = sdk as { Sandbox?: unknown; Snapshot?: unknown; Session?: unknown }
  // The classes of a run and of its sandbox came with 2.0; before, a sandbox was one run.
  if (
    typeof Sandbox === 'function' &&
    typeof Snapshot === 'function' &&
    (given || typeof Session === 'function')
  )
    return sdk as VercelSdk
  throw new SandboxError('sdk_missing', `This is not a ${packageName} that this provider knows.`, {
    provider: 'vercel',
    hint: installHint,
  })
}

const installHint = `Install the tested version: npm install ${packageName}@${testedMajor}`

async function imported(): Promise<unknown> {
  // Not written as a literal, so that no bundler and no type checker wants the package where it is not used.
  const name: string = packageName
  let module: unknown
  try {
    module = await import(/* @vite-ignore */ name)
  } catch (cause) {
    // Only its own absence; a package that it misses in turn is a different fault.
    if (isMissing(cause, name))
      throw new SandboxError('sdk_missing', `The provider “vercel” needs the package ${packageName}.`, {
        provider: 'vercel',
        cause,
        hint: installHint,
      })
    throw new SandboxError('sdk_missing', `The package ${packageName} is there, but does not load.`, {
      provider: 'vercel',
      cause,
      hint: 'See the cause; then install it again.',
    })
  }
  await refuseOther(name)
  return module
}

/** Node says `ERR_MODULE_NOT_FOUND`, and names the package that it looked for. */
function isMissing(cause: unknown, name: string): boolean {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return false
  return new RegExp(`['"]${name}['"]`).test(String(message))
}

/** Another major version has other calls; better to say so than to fail somewhere in the middle. */
async function refuseOther(name: string): Promise<void> {
  const manifest: string = `${name}/package.json`
  let version: string
  try {
    const found = (await import(/* @vite-ignore */ manifest, { with: { type: 'json' } })) as {
      default: { version: string }
    }
    version = found.default.version
  } catch {
    // Where packages are bundled there is no manifest to look at; the shape of the module has to do.
    return
  }
  if (Number(version.split('.')[0]) === testedMajor) return
  throw new SandboxError(
    'sdk_missing',
    `${packageName} ${version} is installed; this provider knows ${testedMajor}.x.`,
    {
      provider: 'vercel',
      details: { version },
      hint: installHint,
    },
  )
}

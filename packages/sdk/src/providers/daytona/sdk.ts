import { SandboxError } from '../../errors.ts'

/** The part of `@daytona/sdk` that is called here. A type test proves that the real one fits. */
export interface DaytonaModule {
  readonly Daytona: new (config: DaytonaClientConfig) => DaytonaClient
}

export interface DaytonaClientConfig {
  apiKey?: string
  jwtToken?: string
  organizationId?: string
  apiUrl?: string
  target?: string
  requestTimeoutMs?: number
  useDeprecatedPolling?: boolean
}

export interface DaytonaClient {
  create(params: never, options?: { timeout?: number }): Promise<DaytonaSandboxObject>
  get(idOrName: string): Promise<DaytonaSandboxObject>
  list(query?: { labels?: Record<string, string>; limit?: number }): AsyncIterable<DaytonaSandboxObject>
  readonly snapshot: {
    list(page?: number, limit?: number): Promise<{ items: DaytonaSnapshot[]; totalPages: number }>
    delete(idOrName: string): Promise<void>
  }
  [Symbol.asyncDispose](): Promise<void>
}

export interface DaytonaSnapshot {
  readonly name: string
  readonly general?: boolean
  readonly size?: number | null
  readonly createdAt?: Date | string
  readonly sourceSandboxId?: string | null
}

export interface DaytonaSandboxObject {
  readonly id: string
  readonly name?: string
  readonly state?: string
  readonly labels?: Record<string, string>
  readonly errorReason?: string
  readonly recoverable?: boolean
  readonly createdAt?: string
  readonly autoDestroyAt?: string
  readonly process: {
    executeCommand(
      command: string,
      cwd?: string,
      env?: Record<string, string>,
      timeoutSeconds?: number,
    ): Promise<{ exitCode: number; result: string }>
  }
  readonly fs: {
    uploadFileStream(
      source: unknown,
      remotePath: string,
      options?: { signal?: AbortSignal; timeout?: number },
    ): Promise<void>
    downloadFileStream(
      remotePath: string,
      options?: { signal?: AbortSignal; timeout?: number },
    ): Promise<AsyncIterable<Uint8Array>>
  }
  refreshData(): Promise<void>
  refreshActivity(): Promise<void>
  start(timeoutSeconds?: number): Promise<void>
  stop(timeoutSeconds?: number): Promise<void>
  pause(timeoutSeconds?: number): Promise<void>
  recover(timeoutSeconds?: number): Promise<void>
  fork(params?: { name?: string }, timeoutSeconds?: number): Promise<DaytonaSandboxObject>
  delete(timeoutSeconds?: number): Promise<void>
  setLabels(labels: Record<string, string>): Promise<unknown>
  createSnapshot(name: string, timeoutSeconds?: number): Promise<void>
  getPreviewLink(port: number): Promise<{ url: string; token: string }>
  getSignedPreviewUrl(port: number, expiresInSeconds?: number): Promise<{ url: string }>
}

/** The name that it has now, and the one that it had. */
export const daytonaPackages = ['@daytona/sdk', '@daytonaio/sdk'] as const
const testedMajor = 0
const install = 'Install it with: npm install @daytona/sdk@0.216.0'

/** Loaded when it is first used, and by name: whoever does not use it needs not have it. */
export async function loadSdk(): Promise<DaytonaModule> {
  for (const name of daytonaPackages) {
    const loaded = await found(import(/* @vite-ignore */ name), name)
    if (!loaded) continue
    await checkVersion(name)
    return checkModule(loaded)
  }
  throw new SandboxError('sdk_missing', 'The Daytona provider needs the package @daytona/sdk.', {
    provider: 'daytona',
    hint: `${install} (or @daytonaio/sdk, its old name).`,
  })
}

/** What a caller hands in, or an import gave. */
export function checkModule(given: unknown): DaytonaModule {
  const { Daytona } = (given ?? {}) as { Daytona?: unknown }
  if (typeof Daytona === 'function') return given as DaytonaModule
  throw new SandboxError('sdk_missing', 'What was loaded as Daytona’s SDK has no class Daytona.', {
    provider: 'daytona',
    hint: install,
  })
}

async function checkVersion(name: string): Promise<void> {
  const loaded = await import(/* @vite-ignore */ `${name}/package.json`, { with: { type: 'json' } })
  const version = String((loaded as { default?: { version?: unknown } }).default?.version)
  if (Number.parseInt(version, 10) === testedMajor) return
  throw new SandboxError('sdk_missing', `${name} is installed as ${version}, which is not known here.`, {
    provider: 'daytona',
    details: { version, tested: `${testedMajor}.x` },
    hint: install,
  })
}

/** Undefined when the package itself is not there; what fails in it is its own failure. */
async function found(loading: Promise<unknown>, name: string): Promise<unknown> {
  try {
    return await loading
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown }
    const missing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
    if (missing && String(message).includes(`'${name}'`)) return undefined
    throw new SandboxError('sdk_missing', `${name} is installed, but cannot be loaded.`, {
      provider: 'daytona',
      cause: error,
      hint: install,
    })
  }
}

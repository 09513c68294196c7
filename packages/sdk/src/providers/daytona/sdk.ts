import { SandboxError } from '../../errors.ts'
import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'

/** The part of `@daytona/sdk` that we call; a type test proves that the real one fits. */
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

export interface DaytonaNetwork {
  networkBlockAll?: boolean
  networkAllowList?: string
  domainAllowList?: string
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
  readonly networkBlockAll?: boolean
  readonly networkAllowList?: string
  readonly domainAllowList?: string
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
  updateNetworkSettings(settings: DaytonaNetwork): Promise<void>
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

const vendorPackage: VendorPackage = {
  provider: 'daytona',
  name: '@daytona/sdk',
  major: 0,
  fits: ({ Daytona }) => typeof Daytona === 'function',
}
/** The package's former name. */
const olderPackage: VendorPackage = { ...vendorPackage, name: '@daytonaio/sdk' }

/** The caller's module, or the installed package, under either of its names. */
export async function loadSdk(given: unknown): Promise<DaytonaModule> {
  try {
    return await loadVendorSdk<DaytonaModule>(vendorPackage, given)
  } catch (error) {
    if (given !== undefined || !isMissing(error)) throw error
    return await loadVendorSdk<DaytonaModule>(olderPackage, undefined).catch((older: unknown) => {
      throw isMissing(older) ? error : older
    })
  }
}

function isMissing(error: unknown): boolean {
  return SandboxError.is(error, 'sdk_missing') && error.details.missing === true
}

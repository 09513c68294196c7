import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'

/**
 * The part of `@hopx-ai/sdk` that we call; a type test proves that the real one fits. It is the SDK's HTTP client alone:
 * its class `Sandbox` sends every POST up to three times after a lost response, which creates three sandboxes.
 */
export interface HopxModule {
  readonly HTTPClient: new (config: HopxClientConfig) => HopxClient
}

export interface HopxClientConfig {
  readonly baseURL: string
  /** For the control plane. */
  readonly apiKey?: string
  /** For the agent in a sandbox, instead of the key. */
  readonly jwtToken?: string
  readonly timeout?: number
  readonly maxRetries?: number
}

export interface HopxClient {
  get(url: string, config?: HopxRequest): Promise<unknown>
  post(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>
  put(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>
  patch(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>
  delete(url: string, config?: HopxRequest): Promise<unknown>
}

/** Options of axios, which the SDK passes on. */
export interface HopxRequest {
  readonly signal?: AbortSignal
  readonly timeout?: number
  readonly maxRedirects?: number
  readonly maxContentLength?: number
  readonly maxBodyLength?: number
  readonly responseType?: 'text'
  readonly validateStatus?: () => boolean
  readonly transformResponse?: (
    data: unknown,
    headers: { get(name: string): unknown },
    status?: number,
  ) => unknown
}

const vendorPackage: VendorPackage = {
  provider: 'hopx',
  name: '@hopx-ai/sdk',
  major: 0,
  fits: ({ HTTPClient }) => typeof HTTPClient === 'function',
}

export function loadSdk(given: unknown): Promise<HopxModule> {
  return loadVendorSdk<HopxModule>(vendorPackage, given)
}

import { loadVendorSdk, type VendorPackage } from '../../shared/vendor-sdk.ts'

/** The part of `@fly/sprites` that we call; a type test proves that the real one fits. */
export interface SpritesSdk {
  readonly SpritesClient: new (token: string, options: { baseURL: string; timeout: number }) => VendorClient
}

export interface VendorClient {
  /** Makes no request. */
  sprite(name: string): VendorSprite
  createSprite(name: string, options: VendorCreate): Promise<VendorFacts>
  getSprite(name: string): Promise<VendorFacts>
  listSprites(options: { prefix?: string; maxResults?: number; continuationToken?: string }): Promise<{
    sprites: VendorFacts[]
    hasMore: boolean
    nextContinuationToken?: string
  }>
  updateSprite(name: string, changes: { labels: string[] }): Promise<unknown>
  deleteSprite(name: string): Promise<void>
}

export interface VendorCreate {
  labels: string[]
  environment?: Record<string, string>
  urlSettings?: { auth?: string }
  runtime?: 'default' | 'dev'
  waitForCapacity?: boolean
}

/** Entries of a list may lack everything but the name. */
export interface VendorFacts {
  readonly name: string
  readonly id?: string
  readonly status?: string
  readonly createdAt?: Date
  readonly labels?: string[]
}

export interface VendorSprite {
  spawn(command: string, args: string[]): VendorCommand
  execFileHTTP(file: string, args: string[], options: { timeout: number }): Promise<unknown>
  proxyPort(localPort: number, remotePort: number, remoteHost: string): Promise<VendorProxy>
}

/** A command on a WebSocket. It has no method that closes the WebSocket. */
export interface VendorCommand {
  readonly stdin: { write(data: Uint8Array): unknown; end(): unknown }
  readonly stdout: VendorOutput
  readonly stderr: { resume(): unknown }
  on(event: 'spawn', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  /** -1 if the WebSocket ended first. */
  on(event: 'exit', listener: (code: number) => void): unknown
  kill(signal: string): void
}

export interface VendorOutput {
  on(event: 'data', listener: (data: Uint8Array) => void): unknown
  on(event: 'end', listener: () => void): unknown
}

/** A listener on this machine that relays its connections. */
export interface VendorProxy {
  localAddr(): string | null
  close(): void
  on(event: 'error', listener: (error: Error) => void): unknown
}

export const vendorPackage: VendorPackage = {
  provider: 'sprites',
  name: '@fly/sprites',
  major: 0,
  // Older versions cannot set labels.
  fits: ({ SpritesClient }) =>
    typeof SpritesClient === 'function' && 'updateSprite' in Object(SpritesClient.prototype),
}

export function loadSdk(given: unknown): Promise<SpritesSdk> {
  return loadVendorSdk<SpritesSdk>(vendorPackage, given)
}

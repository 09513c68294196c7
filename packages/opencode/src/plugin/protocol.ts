import type { WorkspaceInfo, WorkspaceTarget } from './opencode.ts'

/**
 * What the plugin and `sandkasten workspaces` say to each other, as lines of JSON on stdin and stdout. The plugin runs in
 * opencode’s own process, which is Bun: it has no `node:sqlite`, and with it no registry.
 */
export const protocolVersion = 1

/** Options of the plugin in opencode’s configuration. All are optional. */
export interface SandkastenPluginOptions {
  /** The program `sandkasten` and its first arguments. Default: `["sandkasten"]`, found on PATH. */
  command?: readonly string[]
  /** Where new sandboxes are. Default: the default provider of `sandkasten sandbox`. */
  provider?: string
  /** `provider/model`. Default: the model of opencode’s configuration. */
  model?: string
  /** The address of the model’s API. Default: the `baseURL` of its provider in opencode’s configuration. */
  modelUrl?: string
  /** Names of variables with keys that the agent gets. Default: none. */
  credentials?: readonly string[]
  /** Rules for what else the sandbox may reach: `github.com`, `preset:packages`. */
  allow?: readonly string[]
  deny?: readonly string[]
  /** Instead of the network of the model: `none`, `open`, or a policy. */
  network?: 'none' | 'open' | Readonly<Record<string, unknown>>
  /** Options of new sandboxes. */
  sandbox?: {
    image?: string
    runtime?: string
    memoryMb?: number
    vcpus?: number
    diskMb?: number
    /** Stop the sandbox after this long without use. */
    idleStopMs?: number
    lifetimeMs?: number
  }
}

/** A project at home, and how its workspaces are made. */
export interface HomeProject {
  readonly folder: string
  readonly options: Omit<SandkastenPluginOptions, 'command'>
  /** From opencode’s configuration, without keys. */
  readonly model?: string
  readonly providers: Readonly<Record<string, HomeProvider>>
  /** The program of the opencode at home. Its version is also that of the workspaces. */
  readonly opencode: string
}

export interface HomeProvider {
  readonly npm?: string
  readonly name?: string
  readonly models?: Readonly<Record<string, unknown>>
  readonly baseUrl?: string
}

export type WorkspaceFacts = Pick<WorkspaceInfo, 'name' | 'directory' | 'extra'>

/** Methods of the helper. */
export interface HelperMethods {
  /** `token` and `port` stay the same when a helper is replaced: opencode keeps using an address. */
  hello(params: { version: number; token: string; port?: number | undefined }): { port: number }
  create(params: { info: WorkspaceInfo; project: HomeProject }): WorkspaceFacts
  list(params: { project: HomeProject }): WorkspaceFacts[]
  target(params: { info: WorkspaceInfo; project: HomeProject }): Pick<WorkspaceTarget, 'url' | 'headers'>
  remove(params: { info: WorkspaceInfo }): null
}

export interface HelperRequest {
  readonly id: number
  readonly method: keyof HelperMethods
  readonly params: unknown
}

export type HelperLine =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: { readonly message: string; readonly hint?: string } }
  /** For people. */
  | { readonly notice: string; readonly level: 'info' | 'warning' | 'error' }

/** The part of opencode’s plugin interface that this plugin uses. The tests check it against `@opencode-ai/plugin`. */

/** A workspace as opencode stores it. */
export interface WorkspaceInfo {
  id: string
  type: string
  name: string
  branch: string | null
  /** The folder of the project in the workspace. */
  directory: string | null
  extra: unknown
  projectID: string
}

export interface WorkspaceTarget {
  type: 'remote'
  url: string
  headers: Record<string, string>
}

export interface WorkspaceAdapter {
  name: string
  description: string
  configure(info: WorkspaceInfo): Promise<WorkspaceInfo>
  create(info: WorkspaceInfo): Promise<void>
  /** opencode 1.18 calls it, and its types do not have it. */
  list(): Promise<Array<Omit<WorkspaceInfo, 'id'>>>
  remove(info: WorkspaceInfo): Promise<void>
  target(info: WorkspaceInfo): Promise<WorkspaceTarget>
}

export interface PluginInput {
  readonly client: {
    readonly tui: {
      showToast(options: {
        body: { title?: string; message: string; variant: 'info' | 'warning' | 'error' }
      }): Promise<unknown>
    }
    readonly app: {
      log(options: {
        body: { service: string; level: 'info' | 'warn' | 'error'; message: string }
      }): Promise<unknown>
    }
  }
  readonly project: { readonly id: string }
  readonly directory: string
  /** The root of the repository; `/` without one. */
  readonly worktree: string
  readonly experimental_workspace: { register(type: string, adapter: WorkspaceAdapter): void }
}

/** The part of opencode’s configuration that a workspace takes over. */
export interface OpencodeConfig {
  model?: string
  provider?: Record<string, ProviderConfig | undefined>
}

export interface ProviderConfig {
  npm?: string
  name?: string
  models?: Record<string, unknown>
  options?: { baseURL?: unknown }
}

export interface Hooks {
  config?: (config: OpencodeConfig) => Promise<void>
}

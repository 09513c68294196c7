import type { NamedSandbox } from '@sandkasten/registry'

/** Where a thread works. */
export interface ResolvedDirectory {
  /** The project of the channel: in the sandbox, if there is one. */
  readonly projectDirectory: string
  /** The folder of the thread: the same one, or a worktree of it. */
  readonly workingDirectory: string
  readonly channelAppId?: string
  readonly sandbox?: {
    readonly id: string
    readonly provider: string
    readonly providerSandboxId: string
    /** The address of opencode in the sandbox, if one was saved. */
    readonly baseUrl: string | null
    readonly status: string
  }
}

export function resolvedDirectory(
  { record, handle }: NamedSandbox,
  options: { readonly workingDirectory?: string; readonly appId?: string } = {},
): ResolvedDirectory {
  const projectDirectory = record.directory ?? handle.workdir
  return {
    projectDirectory,
    workingDirectory: options.workingDirectory ?? projectDirectory,
    ...(options.appId !== undefined && { channelAppId: options.appId }),
    sandbox: {
      id: record.id,
      provider: record.provider,
      providerSandboxId: record.providerSandboxId ?? handle.sandboxId,
      baseUrl: record.baseUrl ?? null,
      status: record.status,
    },
  }
}

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Access } from '../code/access.ts'
import { type AgentSettings, settingsOf } from '../code/settings.ts'
import type { WorkspacePlan } from './options.ts'

/** The opencode at home. The one in the sandbox has to be the same version: they exchange their events. */
export interface AgentVersion {
  readonly version?: string
  /** Its program, if a sandbox can run it. */
  readonly binary?: string
}

const run = promisify(execFile)

export async function versionOf(program: string): Promise<AgentVersion> {
  try {
    const { stdout } = await run(program, ['--version'], { timeout: 30_000 })
    const version = /^v?(\d+\.\d+\.\d+[\w.+-]*)$/.exec(stdout.trim())?.[1]
    if (version === undefined) return {}
    return process.platform === 'linux' ? { version, binary: program } : { version }
  } catch {
    // The version that we test is the best guess.
    return {}
  }
}

/** What the opencode in the sandbox gets. */
export function settingsFor(
  plan: WorkspacePlan,
  access: Access,
  version: AgentVersion,
  workspaceId: string,
): AgentSettings {
  const { modelProvider = {}, model } = plan
  const settings = settingsOf('opencode', model, access)
  const { npm, name, models } = modelProvider
  const own = (settings.config?.provider as Record<string, object> | undefined)?.[model.provider]
  const described = {
    ...own,
    ...defined({ npm, name }),
    ...(models && { models: { ...modelsOf(own), ...models } }),
  }
  return {
    ...settings,
    ...version,
    config: {
      ...settings.config,
      ...(Object.keys(described).length > 0 && { provider: { [model.provider]: described } }),
    },
    envVars: {
      // With these, the server sends its changes to the opencode at home.
      OPENCODE_WORKSPACE_ID: workspaceId,
      OPENCODE_EXPERIMENTAL_WORKSPACES: 'true',
    },
  }
}

function modelsOf(provider: object | undefined): object {
  return (provider as { models?: object } | undefined)?.models ?? {}
}

function defined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as Partial<T>
}

import path from 'node:path'
import type { AgentModeSetting, AgentOpener } from '@sandkasten/threads'
import { modelOf } from '../code/model.ts'
import { settingsOf } from '../code/settings.ts'

export interface AgentChoice {
  readonly model?: string
  readonly modelUrl?: string
  readonly credential?: readonly string[]
  /** Default: at home. */
  readonly mode?: AgentModeSetting
}

/**
 * opencode on this machine, with tools of the sandbox only: it reaches its model as this machine does, and no key enters
 * the sandbox. Other modes need a model that the sandbox reaches, and give it the keys.
 */
export async function agentsHere(
  folder: string,
  { model: name, modelUrl, credential = [], mode = 'home' }: AgentChoice,
): Promise<AgentOpener & AsyncDisposable> {
  const { agentOpener, openAgents } = await import('@sandkasten/threads')
  const model = modelOf({ agent: 'opencode', model: name, modelUrl, credentials: credential })
  const credentials = credential.map((variable) => ({ variable }))
  const access = { credentials, readable: credential, ...(modelUrl !== undefined && { modelUrl }) }
  const { config } = settingsOf('opencode', model, access)
  const agents = openAgents({
    homeFolder: path.join(folder, 'home'),
    mode,
    credentials,
    ...(config && { config }),
    ...(model.name !== undefined && { model: model.name }),
  })
  return { ...agentOpener(agents), [Symbol.asyncDispose]: () => agents.close() }
}

import path from 'node:path'
import { type AgentOpener, agentOpener, openAgents } from '@sandkasten/threads'
import { modelOf } from '../code/model.ts'
import { settingsOf } from '../code/settings.ts'

export interface AgentChoice {
  readonly model?: string
  readonly modelUrl?: string
  readonly credential?: readonly string[]
}

/**
 * opencode on this machine, with tools of the sandbox only: it reaches its model as this machine does, and no key enters
 * the sandbox.
 */
export function agentsAtHome(
  folder: string,
  { model: name, modelUrl, credential = [] }: AgentChoice,
): AgentOpener & AsyncDisposable {
  const model = modelOf({ agent: 'opencode', model: name, modelUrl, credentials: credential })
  const credentials = credential.map((variable) => ({ variable }))
  const access = { credentials, readable: credential, ...(modelUrl !== undefined && { modelUrl }) }
  const { config } = settingsOf('opencode', model, access)
  const agents = openAgents({
    homeFolder: path.join(folder, 'home'),
    mode: 'home',
    credentials,
    ...(config && { config }),
    ...(model.name !== undefined && { model: model.name }),
  })
  return { ...agentOpener(agents), [Symbol.asyncDispose]: () => agents.close() }
}

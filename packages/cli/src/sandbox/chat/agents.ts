import path from 'node:path'
import type { AgentModeSetting, AgentOpener, ThreadServices } from '@sandkasten/threads'
import { modelOf } from '../code/model.ts'
import { settingsOf } from '../code/settings.ts'

export interface AgentChoice {
  readonly model?: string
  readonly modelUrl?: string
  readonly credential?: readonly string[]
  /** Default: at home. */
  readonly mode?: AgentModeSetting
  /** Something is missing, and the agent works without it. */
  readonly onProblem?: (threadId: string, message: string) => void
}

/**
 * opencode on this machine, with tools of the sandbox only: it reaches its model as this machine does, and no key enters
 * the sandbox. Other modes need a model that the sandbox reaches, and give it the keys.
 */
export async function agentsHere(
  folder: string,
  { model: name, modelUrl, credential = [], mode = 'home', onProblem = () => {} }: AgentChoice,
): Promise<AgentOpener & AsyncDisposable> {
  const { agentOpener, openAgents, openBridge, servicesHome } = await import('@sandkasten/threads')
  const model = modelOf({ agent: 'opencode', model: name, modelUrl, credentials: credential })
  const credentials = credential.map((variable) => ({ variable }))
  const access = { credentials, readable: credential, ...(modelUrl !== undefined && { modelUrl }) }
  const { config } = settingsOf('opencode', model, access)
  const services = new Map<string, ThreadServices>()
  const bridge = await openBridge({ home: servicesHome(services), onProblem })
  const agents = openAgents({
    bridge,
    onProblem,
    homeFolder: path.join(folder, 'home'),
    mode,
    credentials,
    ...(config && { config }),
    ...(model.name !== undefined && { model: model.name }),
  })
  return {
    ...agentOpener(agents, services),
    async [Symbol.asyncDispose]() {
      await agents.close()
      await bridge[Symbol.asyncDispose]()
    },
  }
}

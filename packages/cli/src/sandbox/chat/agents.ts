import path from 'node:path'
import type { Network } from '@sandkasten/sdk'
import type { AgentModeSetting, OpenThreadsOptions, ThreadServices } from '@sandkasten/threads'
import { type NetworkOptions, networkOf, sdkNetwork } from '../../network-choice.ts'
import { accessesOf } from '../code/access.ts'
import { modelOf } from '../code/model.ts'
import { settingsOf } from '../code/settings.ts'

/** `network`, `allow`, `deny`, `audit`: of new sandboxes. */
export interface AgentChoice extends NetworkOptions {
  readonly model?: string
  readonly modelUrl?: string
  readonly credential?: readonly string[]
  /** Default: at home. */
  readonly mode?: AgentModeSetting
  /** Something is missing, and the agent works without it. */
  readonly onProblem?: (threadId: string, message: string) => void
}

export interface AgentsHere extends AsyncDisposable {
  /** For `openThreads`. */
  readonly options: Pick<OpenThreadsOptions, 'agents' | 'sandboxDefaults' | 'agentNetwork'>
}

/**
 * opencode on this machine, with tools of the sandbox only: it reaches its model as this machine does, and no key enters
 * the sandbox. Other modes give the sandbox the keys, and a network that reaches the model.
 */
export async function agentsHere(folder: string, options: AgentChoice): Promise<AgentsHere> {
  const { model: name, modelUrl, credential = [], mode = 'home', onProblem = () => {} } = options
  const { agentOpener, openAgents, openBridge, servicesHome } = await import('@sandkasten/threads')
  const model = modelOf({ agent: 'opencode', model: name, modelUrl, credentials: credential })
  const credentials = credential.map((variable) => ({ variable }))
  const plain = { credentials, readable: credential }
  const chosen = networkOf(options)
  // Keys are not brokered here, so the first way is a policy that reaches the model.
  const [inside] = accessesOf({ ...options, model: { ...model, key: undefined }, credentials: credential })
  const configOf = (url: string | undefined) =>
    settingsOf('opencode', model, { ...plain, ...(url !== undefined && { modelUrl: url }) }).config
  const services = new Map<string, ThreadServices>()
  const bridge = await openBridge({ home: servicesHome(services), onProblem })
  const homeConfig = configOf(modelUrl)
  const config = mode === 'home' ? homeConfig : configOf(inside!.modelUrl)
  const agents = openAgents({
    homeFolder: path.join(folder, 'home'),
    ...{ mode, bridge, onProblem, credentials },
    ...(config && { config }),
    ...(homeConfig && { homeConfig }),
    ...(model.name !== undefined && { model: model.name }),
  })
  const network = mode === 'home' ? chosen && (sdkNetwork(chosen) as Network) : inside!.network
  return {
    options: {
      agents: agentOpener(agents, services),
      ...(network && (chosen ? { sandboxDefaults: { network } } : { agentNetwork: network })),
    },
    async [Symbol.asyncDispose]() {
      await agents.close()
      await bridge[Symbol.asyncDispose]()
    },
  }
}

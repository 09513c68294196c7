import type { AgentName } from '@sandkasten/opencode'
import { type Access, accessesOf } from './access.ts'
import { type Model, modelOf } from './model.ts'
import { type CodeOptions, invalid } from './options.ts'
import type { Project } from './project.ts'
import type { Remembered } from './remembered.ts'

/** Everything that options and earlier runs decide, before a sandbox is asked. */
export interface Plan {
  readonly agent: AgentName
  readonly model: Model
  readonly accesses: readonly Access[]
  /** For the next run. */
  readonly choices: Remembered
}

/** Options win over what an earlier run in the same folder remembered. */
export function planOf(options: CodeOptions, before: Remembered, project: Project): Plan {
  const agent = options.agent ?? before.agent ?? 'opencode'
  const sameAgent = agent === (before.agent ?? agent)
  const model = options.model ?? (sameAgent ? before.model : undefined)
  // Another model of the same provider is at the same address.
  const sameProvider = agent === 'claude' || providerIn(model) === providerIn(before.model)
  const modelUrl = options.modelUrl ?? (sameAgent && sameProvider ? before.modelUrl : undefined)
  const credentials = [...new Set(options.credential ?? before.credentials ?? [])]
  const isNewNetwork = [options.network, options.allow, options.deny].some((one) => one !== undefined)
  const { network, allow, deny } = isNewNetwork ? options : before
  const absent = credentials.find((name) => !process.env[name])
  if (absent !== undefined)
    throw invalid(
      `The variable ${absent} is not set.`,
      options.credential === undefined
        ? 'An earlier run in this folder was given it with --credential. Export it, or name another one.'
        : 'Pass the name of a variable, not the key itself, and export the variable.',
    )
  const described = modelOf({ agent, model, modelUrl, credentials })
  if (
    described.url === undefined &&
    described.name !== undefined &&
    network === undefined &&
    allow === undefined
  )
    throw invalid(
      `The address of the model provider “${described.provider}” is not known.`,
      'Pass --model-url with its address, or --allow with its host.',
    )
  const choices = { agent, model, modelUrl, credentials, network, allow, deny }
  const given = { network, allow, deny, credentials, model: described, remote: project.remote }
  return { agent, model: described, accesses: accessesOf(given), choices }
}

function providerIn(model: string | undefined): string | undefined {
  return model?.split('/')[0]
}

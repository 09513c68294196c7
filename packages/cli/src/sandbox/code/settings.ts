import { createHash } from 'node:crypto'
import { type AgentName, agents, type BootstrapOptions } from '@sandkasten/opencode'
import { placeholder } from '@sandkasten/sdk'
import type { Access } from './access.ts'
import type { Model } from './model.ts'

export type AgentSettings = Required<Pick<BootstrapOptions, 'envVars' | 'credentials'>> &
  Pick<BootstrapOptions, 'model' | 'config' | 'version' | 'binary'>

/** What the agent gets: its model, and its keys or placeholders for them. */
export function settingsOf(agent: AgentName, model: Model, access: Access): AgentSettings {
  const { credentials } = access
  const base = { credentials, model: model.name }
  if (agent === 'claude')
    return { ...base, envVars: access.modelUrl === undefined ? {} : { ANTHROPIC_BASE_URL: access.modelUrl } }
  return {
    ...base,
    envVars: {},
    config: model.name === undefined ? undefined : opencodeConfig(model, access),
  }
}

function opencodeConfig(model: Model, { modelUrl, credentials }: Access): Record<string, unknown> {
  const { provider, model: id, key } = model
  const isKnown = provider === 'anthropic' || provider === 'openai'
  const brokered = credentials.some(
    (one) => 'variable' in one && one.variable === key && one.secret !== undefined,
  )
  const apiKey = key === undefined ? undefined : brokered ? placeholder(key) : `{env:${key}}`
  const options = {
    ...(modelUrl === undefined ? {} : { baseURL: modelUrl }),
    // Clients refuse to start without a key, also for a server that wants none.
    ...(apiKey === undefined && modelUrl === undefined ? {} : { apiKey: apiKey ?? 'none' }),
  }
  const own = {
    npm: '@ai-sdk/openai-compatible',
    name: provider,
    models: { [id!]: { name: id, tool_call: true } },
  }
  // Titles of sessions come from a small model, which a server of the user's own need not have.
  const small = modelUrl === undefined ? {} : { small_model: model.name }
  return {
    ...small,
    enabled_providers: [provider],
    ...(modelUrl === undefined && Object.keys(options).length === 0
      ? {}
      : { provider: { [provider]: { ...(isKnown ? {} : own), options } } }),
  }
}

/** Variables for a program of the agent on a terminal. */
export function programEnv(agent: AgentName, { model, config, envVars, credentials }: AgentSettings) {
  const keys = credentials.flatMap((one) =>
    'variable' in one
      ? [[one.variable, one.secret === undefined ? process.env[one.variable] : placeholder(one.secret)]]
      : [],
  )
  const env = agents[agent].environment({ folder: '/nonexistent', model, config })
  return { ...env, ...envVars, ...Object.fromEntries(keys) } as Record<string, string | undefined>
}

/** Changes when a server that runs would have to be started again. Keys are in it by name only. */
export function hashOf({ binary: _, ...settings }: AgentSettings): string {
  return createHash('sha256').update(JSON.stringify(settings)).digest('hex').slice(0, 16)
}

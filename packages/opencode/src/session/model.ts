import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import { callServer, type SessionServer } from './call.ts'
import { limits } from './limits.ts'
import { fieldsOf, lineOf, listOf, textIf } from './read.ts'

export interface ServerModel {
  /** `provider/model`. */
  readonly id: string
  readonly name: string
}

/** The models that the server can use. */
export async function listModels(
  server: SessionServer,
  { signal }: CallOptions = {},
): Promise<ServerModel[]> {
  const { value } = await callServer(server, { path: 'config/providers', signal })
  const providers = listOf(fieldsOf(value).providers, 200).map(fieldsOf)
  const models = providers.flatMap(({ id, models: all }) =>
    Object.entries(fieldsOf(all)).flatMap(([key, model]) => {
      const provider = textIf(id, 200)
      const name = lineOf(fieldsOf(model).name ?? key, 200)
      return provider === undefined || key.length > 200 ? [] : [{ id: `${provider}/${key}`, name }]
    }),
  )
  return models.slice(0, limits.models)
}

export function modelOf(model: string): { providerID: string; modelID: string } {
  const [, providerID, modelID] = /^([^/]+)\/(.+)$/s.exec(model) ?? []
  if (modelID === undefined)
    throw new SandboxError('invalid_argument', 'The model of opencode has the form provider/model.', {
      hint: 'For example anthropic/claude-sonnet.',
    })
  return { providerID: providerID!, modelID }
}

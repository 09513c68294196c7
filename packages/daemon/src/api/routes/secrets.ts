import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import type { Secret } from '../../secrets/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso } from '../views.ts'

const tag = 'secrets'
const params = z.object({ name: z.string() })

export function secretRoutes({ secrets, events }: Services): Route[] {
  return [
    route({
      id: 'listSecrets',
      method: 'GET',
      path: '/v1/secrets',
      access: 'read',
      tag,
      summary: 'List the project’s secrets by name. Values are never returned.',
      answer: { description: 'All secrets.', schema: z.object({ secrets: z.array(schemas.secret) }) },
      handle: async ({ caller }) => ({ secrets: (await secrets.list(caller)).map(view) }),
    }),
    route({
      id: 'putSecret',
      method: 'PUT',
      path: '/v1/secrets/{name}',
      access: 'secrets',
      tag,
      summary: 'Set the value of a secret. Running sandboxes that use it get the new value.',
      params,
      body: schemas.secretBody,
      answer: { description: 'The secret, without its value.', schema: schemas.secret },
      async handle({ caller, params, body }) {
        const secret = await secrets.put(caller, params.name, body)
        const data = { secret: secret.name, version: secret.version }
        events.publish({ projectId: caller.projectId, type: 'secret.set', data })
        return view(secret)
      },
    }),
    route({
      id: 'deleteSecret',
      method: 'DELETE',
      path: '/v1/secrets/{name}',
      access: 'secrets',
      tag,
      summary: 'Delete a secret. Requests that need it are refused from then on.',
      params,
      answer: { description: 'Done.', schema: z.object({ deleted: z.boolean() }) },
      async handle({ caller, params }) {
        await secrets.delete(caller, params.name)
        const data = { secret: params.name }
        events.publish({ projectId: caller.projectId, type: 'secret.deleted', data })
        return { deleted: true }
      },
    }),
    route({
      id: 'rotateSecretKey',
      method: 'POST',
      path: '/v1/secret-key/rotate',
      access: 'operator',
      tag,
      summary: 'Encrypt the secrets of all projects with a new key.',
      answer: {
        description: 'The id of the new key, and the number of values.',
        schema: z.object({ key_id: z.string(), values: z.int() }),
      },
      async handle() {
        const { keyId, values } = await secrets.rotateKey()
        return { key_id: keyId, values }
      },
    }),
  ]
}

function view({ name, version, hosts, createdAt, updatedAt }: Secret): z.infer<typeof schemas.secret> {
  return {
    name,
    version,
    hosts: hosts ? [...hosts] : null,
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
  }
}

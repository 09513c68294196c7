import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { quotasSchema } from '../../config/index.ts'
import type { Services } from '../../http/services.ts'
import { type Caller, isOperator, type NewKey, scopes, scopesOf } from '../../keys/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { iso, isoOrNull } from '../views.ts'

const tag = 'keys'
const usage = z.object({
  sessions: z.number(),
  cpu: z.number(),
  mem_mb: z.number(),
  disk_mb: z.number(),
  volumes: z.number(),
  volume_mb: z.number().describe('The total limit of its volumes.'),
})

export function keyRoutes({ keys, sessions }: Services): Route[] {
  return [
    route({
      id: 'whoami',
      method: 'GET',
      path: '/v1/whoami',
      access: 'read',
      tag,
      summary: 'Get the key’s scopes, and its project’s usage and quotas.',
      answer: {
        description: 'The key.',
        schema: z.object({
          key_id: z.string(),
          subject: z.string().nullable().describe('The subject of the token. Null for keys.'),
          project_id: z.string(),
          scopes: z.array(z.enum(scopes)),
          operator: z.boolean(),
          used: usage,
          quotas: quotasSchema,
          isolation: z.string(),
          abilities: z.record(z.string(), z.string()),
        }),
      },
      async handle({ caller }) {
        const { provider } = sessions
        return {
          key_id: caller.keyId,
          subject: caller.subject ?? null,
          project_id: caller.projectId,
          scopes: caller.scopes,
          operator: isOperator(caller),
          ...(await sessions.usage(caller)),
          isolation: provider.isolation,
          abilities: provider.capabilities,
        }
      },
    }),
    route({
      id: 'createKey',
      method: 'POST',
      path: '/v1/keys',
      access: 'admin',
      tag,
      summary: 'Create a key. The key is shown only in this response.',
      body: z.strictObject({
        name: schemas.name,
        scopes: z
          .array(z.enum(scopes))
          .min(1)
          .max(scopes.length)
          .describe('`exec` includes `read`; `admin` includes all. `secrets`: set and delete secrets.'),
        expires_in_seconds: schemas.seconds.optional(),
        project_id: z.string().optional().describe('Only the operator may name another project.'),
      }),
      answer: { status: 201, description: 'The key.', schema: schemas.key.extend({ key: z.string() }) },
      async handle({ caller, body }) {
        const projectId = projectOf(caller, body.project_id)
        const expiresAt =
          body.expires_in_seconds === undefined ? undefined : Date.now() + body.expires_in_seconds * 1000
        const { row, key } = await keys.create(projectId, { name: body.name, scopes: body.scopes, expiresAt })
        return { ...view(row), key }
      },
    }),
    route({
      id: 'listKeys',
      method: 'GET',
      path: '/v1/keys',
      access: 'admin',
      tag,
      summary: 'List the project’s keys, without their secrets.',
      query: z.strictObject({ project_id: z.string().optional() }),
      answer: { description: 'Keys.', schema: z.object({ keys: z.array(schemas.key) }) },
      handle: async ({ caller, query }) => ({
        keys: (await keys.list(projectOf(caller, query.project_id))).map(view),
      }),
    }),
    route({
      id: 'revokeKey',
      method: 'DELETE',
      path: '/v1/keys/{key_id}',
      access: 'admin',
      tag,
      summary: 'Revoke a key. It stops working at once.',
      params: z.object({ key_id: z.string() }),
      query: z.strictObject({ project_id: z.string().optional() }),
      answer: {
        description: 'False when the key was already revoked.',
        schema: z.object({ revoked: z.boolean() }),
      },
      handle: async ({ caller, params, query }) => ({
        revoked: await keys.revoke(projectOf(caller, query.project_id), params.key_id),
      }),
    }),
    route({
      id: 'createProject',
      method: 'POST',
      path: '/v1/projects',
      access: 'operator',
      tag,
      summary: 'Create a project. Its sessions, snapshots and keys are separate from other projects.',
      body: z.strictObject({ name: schemas.name, quotas: quotasSchema.optional() }),
      answer: { status: 201, description: 'The project.', schema: schemas.project },
      handle: async ({ body }) =>
        projectView(await keys.createProject(body.name, body.quotas ? JSON.stringify(body.quotas) : null)),
    }),
    route({
      id: 'listProjects',
      method: 'GET',
      path: '/v1/projects',
      access: 'operator',
      tag,
      summary: 'List all projects.',
      answer: { description: 'Projects.', schema: z.object({ projects: z.array(schemas.project) }) },
      handle: async () => ({ projects: (await keys.projects()).map(projectView) }),
    }),
    route({
      id: 'setQuotas',
      method: 'PATCH',
      path: '/v1/projects/{project_id}',
      access: 'operator',
      tag,
      summary: 'Set the quotas of a project. Null uses the configured quotas.',
      params: z.object({ project_id: z.string() }),
      body: z.strictObject({ quotas: quotasSchema.nullable() }),
      answer: { description: 'The project.', schema: schemas.project },
      handle: async ({ params, body }) =>
        projectView(
          await keys.setQuotas(params.project_id, body.quotas ? JSON.stringify(body.quotas) : null),
        ),
    }),
  ]
}

/** Returns the caller's project, or the named one if the caller is the operator. */
function projectOf(caller: Caller, named: string | undefined): string {
  if (named === undefined || named === caller.projectId || isOperator(caller))
    return named ?? caller.projectId
  throw new SandboxError('not_found', `There is no project ${named}.`, {
    hint: { sdk: 'Leave the project out.', http: 'Leave project_id out.', cli: 'Leave --project out.' },
  })
}

function view(row: NewKey['row']): z.infer<typeof schemas.key> {
  return {
    id: row.id,
    name: row.name,
    scopes: scopesOf(row),
    project_id: row.project_id,
    created_at: iso(row.created_at),
    expires_at: isoOrNull(row.expires_at),
    revoked_at: isoOrNull(row.revoked_at),
  }
}

function projectView(row: {
  id: string
  name: string
  quotas: string | null
  created_at: number
}): z.infer<typeof schemas.project> {
  return {
    id: row.id,
    name: row.name,
    quotas: row.quotas ? JSON.parse(row.quotas) : null,
    created_at: iso(row.created_at),
  }
}

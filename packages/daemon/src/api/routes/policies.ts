import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { policySchema } from '../../config/index.ts'
import type { Services } from '../../http/services.ts'
import { type Caller, isOperator } from '../../keys/index.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

const tag = 'keys'
const path = '/v1/projects/{project_id}/policy'
const params = z.object({ project_id: z.string() })

export function policyRoutes({ keys, sessions }: Services): Route[] {
  const view = async (projectId: string): Promise<z.infer<typeof schemas.projectPolicy>> => {
    const { policy, ...rules } = await sessions.rules(await asCaller(projectId))
    const { cpu_limit, memory_mb, pids_limit, disk_limit_mb } = rules.max
    return {
      policy,
      effective: {
        images: [...rules.allowed_images],
        default_image: rules.default_image,
        networks: rules.allowed_networks,
        max: { cpu: cpu_limit, memory_mb, pids: pids_limit, disk_mb: disk_limit_mb },
        max_ttl_seconds: rules.longestIdleMs / 1000,
        max_lifetime_seconds: rules.longestLifetimeMs / 1000,
      },
    }
  }
  const asCaller = async (projectId: string) => {
    const { policy } = await keys.project(projectId)
    return { projectId, policy }
  }
  return [
    route({
      id: 'getPolicy',
      method: 'GET',
      path,
      access: 'read',
      tag,
      summary: 'Get the policy of the project. The operator may name any project.',
      params,
      answer: { description: 'The policy.', schema: schemas.projectPolicy },
      async handle({ caller, params }) {
        refuseForeign(caller, params.project_id)
        return view(params.project_id)
      },
    }),
    route({
      id: 'setPolicy',
      method: 'PUT',
      path,
      access: 'operator',
      tag,
      summary:
        'Replace the policy of a project. It applies to the next create, start and fork. An empty object removes it.',
      params,
      body: policySchema,
      answer: { description: 'The policy.', schema: schemas.projectPolicy },
      async handle({ params, body }) {
        const { project_id: id } = params
        await keys.setPolicy(id, Object.keys(body).length === 0 ? null : JSON.stringify(body))
        return view(id)
      },
    }),
  ]
}

function refuseForeign(caller: Caller, projectId: string): void {
  if (projectId === caller.projectId || isOperator(caller)) return
  throw new SandboxError('not_found', `There is no project ${projectId}.`, {
    hint: { sdk: 'Check the id.', http: 'See GET /v1/whoami.', cli: 'See sandkasten status.' },
  })
}

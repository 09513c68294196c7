import { SandboxError } from '@sandkasten/sdk'
import { facts, print } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'
import { given } from './sessions.ts'

interface ProjectPolicy {
  policy: object
  effective: Record<string, unknown>
}

export interface PolicyOptions extends ConnectOptions {
  json?: boolean
}

export interface NewPolicyOptions extends PolicyOptions {
  image?: string[]
  network?: string[]
  host?: string[]
  service?: string[]
  cpus?: number
  memory?: number
  pids?: number
  disk?: number
  maxTtl?: number
  maxLifetime?: number
  /** False: no pooled sandboxes. */
  pool?: string[] | false
  clear?: boolean
}

export async function getPolicy(id: string, options: PolicyOptions): Promise<number> {
  show(await (await connect(options)).json<ProjectPolicy>('GET', pathOf(id)), options)
  return 0
}

/** Replaces the whole policy. */
export async function setPolicy(id: string, options: NewPolicyOptions): Promise<number> {
  const { memory, disk, pool } = options
  const whole = (mb: number | undefined) => (mb === undefined ? undefined : Math.round(mb))
  const max = given({ cpu: options.cpus, memory_mb: whole(memory), pids: options.pids, disk_mb: whole(disk) })
  const policy = given({
    images: options.image,
    networks: options.network,
    hosts: options.host,
    services: options.service,
    max: Object.keys(max).length > 0 ? max : undefined,
    max_ttl_seconds: options.maxTtl,
    max_lifetime_seconds: options.maxLifetime,
    pool: pool === false ? [] : pool,
  })
  if ((Object.keys(policy).length === 0) !== (options.clear === true))
    throw new SandboxError('invalid_argument', 'Give either the new policy or --clear.', {
      hint: 'The options replace the whole policy. --clear removes it.',
    })
  show(await (await connect(options)).json<ProjectPolicy>('PUT', pathOf(id), policy), options)
  return 0
}

function pathOf(id: string): string {
  return `/v1/projects/${encodeURIComponent(id)}/policy`
}

function show(answer: ProjectPolicy, { json }: PolicyOptions): void {
  print(json, answer, () =>
    facts([
      ['policy', Object.keys(answer.policy).length === 0 ? 'none' : JSON.stringify(answer.policy)],
      ...Object.entries(answer.effective).map(([name, value]): [string, string] => [name, textOf(value)]),
    ]),
  )
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(', ')
  if (typeof value !== 'object' || value === null) return String(value)
  return Object.entries(value)
    .map(([name, inner]) => `${name}=${inner}`)
    .join(', ')
}

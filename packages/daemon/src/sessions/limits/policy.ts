import { SandboxError } from '@sandkasten/sdk'
import { type DaemonConfig, fits, type Policy, policySchema } from '../../config/index.ts'
import type { Caller } from '../../keys/index.ts'
import type { Context, Session } from '../context.ts'
import { modeOf, networkOfRow, type SessionNetwork } from '../network/policy.ts'
import { isCovered } from '../network/targets.ts'

/** The configuration as it applies to one project: its defaults and allowed values fit the project's policy. */
export interface Rules extends DaemonConfig {
  readonly policy: Policy
  readonly longestIdleMs: number
  readonly longestLifetimeMs: number
}

/** Settings of a session that a policy limits. Undefined means that the caller did not choose. */
export interface Wished {
  readonly image?: string
  readonly network?: SessionNetwork | 'policy'
  readonly cpu?: number
  readonly memoryMb?: number
  readonly pids?: number
  /** 0 means no limit. */
  readonly diskMb?: number
  readonly ttlMs?: number
  readonly lifetimeMs?: number
}

/** Reads the project's policy again for every call, so a change applies to the next one. */
export async function rulesOf(
  { store, config }: Pick<Context, 'store' | 'config'>,
  caller: Pick<Caller, 'projectId' | 'policy'>,
): Promise<Rules> {
  const written =
    caller.policy === undefined ? (await store.keys.project(caller.projectId))?.policy : caller.policy
  return narrowed(config, written ? policySchema.parse(JSON.parse(written)) : {})
}

export function narrowed(config: DaemonConfig, policy: Policy): Rules {
  const longestMs = config.max_ttl_seconds * 1000
  const longestIdleMs = Math.min(longestMs, (policy.max_ttl_seconds ?? Infinity) * 1000)
  const longestLifetimeMs = Math.min(longestMs, (policy.max_lifetime_seconds ?? Infinity) * 1000)
  const rules = { ...config, policy, longestIdleMs, longestLifetimeMs }
  if (Object.keys(policy).length === 0) return rules
  const { images, networks, max: most = {} } = policy
  const { max, defaults } = config
  const allowed_images = config.allowed_images.filter((image) => !images || fits(images, image))
  const allowed_networks = config.allowed_networks.filter(
    (network) => !networks || networks.includes(network),
  )
  return {
    ...rules,
    allowed_images,
    default_image: among(allowed_images, config.default_image),
    allowed_networks,
    max: {
      ...max,
      cpu_limit: least(max.cpu_limit, most.cpu),
      memory_mb: least(max.memory_mb, most.memory_mb),
      pids_limit: least(max.pids_limit, most.pids),
      disk_limit_mb: least(max.disk_limit_mb, most.disk_mb),
    },
    defaults: {
      ...defaults,
      cpu_limit: least(defaults.cpu_limit, most.cpu),
      memory_mb: least(defaults.memory_mb, most.memory_mb),
      pids_limit: least(defaults.pids_limit, most.pids),
      // 0 means no limit.
      disk_limit_mb:
        most.disk_mb === undefined
          ? defaults.disk_limit_mb
          : least(defaults.disk_limit_mb || Infinity, most.disk_mb),
      network_mode: among(
        allowed_networks.filter((network) => network !== 'policy'),
        defaults.network_mode,
      ),
    },
    session_ttl_seconds: least(config.session_ttl_seconds, policy.max_ttl_seconds),
    lifetime_seconds:
      policy.max_lifetime_seconds === undefined
        ? config.lifetime_seconds
        : least(longestLifetimeMs / 1000, config.lifetime_seconds),
  }
}

/** Refuses settings that the policy does not allow. The error names the policy's field and the allowed values. */
export function refuseBeyond({ policy, allowed_images, allowed_networks }: Rules, wished: Wished): void {
  const { images, networks, max = {} } = policy
  if (wished.image !== undefined && images && !fits(images, wished.image))
    throw refused('images', `the image “${wished.image}”`, allowed_images)
  if (wished.network !== undefined) {
    const mode = modeOf(wished.network as SessionNetwork)
    if (networks && !networks.includes(mode))
      throw refused('networks', `the network “${mode}”`, allowed_networks)
    refuseHosts(policy, wished.network)
  }
  const limits = [
    ['max.cpu', wished.cpu, max.cpu, 'processors'],
    ['max.memory_mb', wished.memoryMb, max.memory_mb, 'megabytes of memory'],
    ['max.pids', wished.pids, max.pids, 'processes'],
    ['max.disk_mb', wished.diskMb === 0 ? Infinity : wished.diskMb, max.disk_mb, 'megabytes of disk'],
    ['max_ttl_seconds', inSeconds(wished.ttlMs), policy.max_ttl_seconds, 'seconds of idle time'],
    [
      'max_lifetime_seconds',
      inSeconds(wished.lifetimeMs),
      policy.max_lifetime_seconds,
      'seconds of lifetime',
    ],
  ] as const
  for (const [field, value, most, unit] of limits)
    if (value !== undefined && most !== undefined && value > most)
      throw refused(field, value === Infinity ? 'a disk without a limit' : `${value} ${unit}`, most)
}

/** Refuses rules beyond the hosts and services of the project. */
export function refuseHosts({ hosts, services }: Policy, network: Wished['network']): void {
  if (typeof network !== 'object') return
  for (const rule of network.allow)
    if (hosts && !isCovered(rule, hosts)) throw refused('hosts', `the rule ${JSON.stringify(rule)}`, hosts)
  const match = network.transform.find(({ match }) => hosts && !isCovered(match, hosts))?.match
  if (match && hosts) throw refused('hosts', `the transform for “${match.host}”`, hosts)
  if (network.audit && hosts) throw refused('hosts', 'audit: true', hosts)
  const service = network.services.find((name) => services && !services.includes(name))
  if (service !== undefined && services) throw refused('services', `the service “${service}”`, services)
}

/** The settings of an existing session, for a check before its start or fork. */
export function wishedBy(session: Session): Wished {
  const { image, cpu, mem_mb, pids, disk_mb } = session
  return { image, network: networkOfRow(session), cpu, memoryMb: mem_mb, pids, diskMb: disk_mb }
}

/** The leases of an existing session, shortened to what the policy allows. */
export function leasesUnder(
  { policy, longestIdleMs, longestLifetimeMs }: Rules,
  { ttl_ms, lifetime_ms }: Session,
): Pick<Session, 'ttl_ms' | 'lifetime_ms'> {
  return {
    ttl_ms: policy.max_ttl_seconds === undefined ? ttl_ms : Math.min(ttl_ms, longestIdleMs),
    lifetime_ms:
      policy.max_lifetime_seconds === undefined
        ? lifetime_ms
        : Math.min(lifetime_ms ?? Infinity, longestLifetimeMs),
  }
}

/** Whether the project may take pooled sandboxes of the image. */
export function mayUsePool({ policy }: Rules, image: string): boolean {
  return policy.pool === undefined || fits(policy.pool, image)
}

function refused(field: string, what: string, allowed: number | readonly string[]): SandboxError {
  const values = typeof allowed === 'number' ? `at most ${allowed}` : allowed.join(', ') || 'nothing'
  return new SandboxError('forbidden', `The project’s policy (${field}) does not allow ${what}.`, {
    details: { policy: field, allowed },
    hint: {
      sdk: `Allowed: ${values}. The operator can change the policy.`,
      http: `Allowed: ${values}. The operator can change it with PUT /v1/projects/{project_id}/policy.`,
      cli: `Allowed: ${values}. The operator can change it with sandkasten projects policy set.`,
    },
  })
}

function inSeconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000
}

function least(value: number, most: number | undefined): number {
  return Math.min(value, most ?? Infinity)
}

/** The usual value, or the first allowed one. */
function among<T>(allowed: readonly T[], usual: T): T {
  return allowed.includes(usual) ? usual : (allowed[0] ?? usual)
}

import type { SnapshotRow, Store } from '../store/index.ts'
import type { Context, Session } from './context.ts'
import { modeOf, networkOfRow, type SessionNetwork } from './network/policy.ts'
import type { CreateRequest } from './plan.ts'

/** Settings that a session inherits from its snapshot's origin. */
export interface SnapshotSettings {
  readonly cpu: number
  readonly memoryMb: number
  readonly pids: number
  /** 0 means no limit. */
  readonly diskMb: number
  readonly network: SessionNetwork
  readonly envNames: readonly string[]
  /** Absent in snapshots of older daemons. */
  readonly user?: 'root' | null
}

export function settingsOf(session: Session): SnapshotSettings {
  return {
    cpu: session.cpu,
    memoryMb: session.mem_mb,
    pids: session.pids,
    diskMb: session.disk_mb,
    network: networkOfRow(session),
    envNames: JSON.parse(session.env_names),
    user: session.run_user as SnapshotSettings['user'],
  }
}

/**
 * Completes a request with the limits and the network of the snapshot's origin. Settings of the request win. `notes`
 * list settings that could not be inherited.
 */
export async function inherit(
  { config, provider, store }: Pick<Context, 'config' | 'provider' | 'store'>,
  request: CreateRequest,
  snapshot: SnapshotRow,
): Promise<{ request: CreateRequest; notes: string[] }> {
  const notes: string[] = []
  if (request.image !== undefined && request.image !== snapshot.image)
    notes.push(`image: a snapshot brings its own, ${snapshot.image}; ${request.image} was not used.`)
  const settings = await recorded(store, snapshot)
  if (!settings) {
    notes.push('limits, network_mode: the snapshot does not record those of its origin; defaults are used.')
    return { request, notes }
  }
  const lost = settings.envNames.filter((name) => request.env?.[name] === undefined)
  if (lost.length > 0) notes.push(`env: values are not part of a snapshot; pass ${lost.join(', ')} again.`)
  // Without isolation there are no limits and no network to inherit.
  if (!provider.createOptions.has('resources')) return { request, notes }
  const { limits = {} } = request
  const { max } = config
  const atMost = (value: number, most: number, name: string) => {
    if (value > most) notes.push(`limits.${name}: ${value} exceeds the limit; ${most} is used.`)
    return Math.min(value, most)
  }
  const inherited = {
    cpu: limits.cpu ?? atMost(settings.cpu, max.cpu_limit, 'cpu'),
    memoryMb: limits.memoryMb ?? atMost(settings.memoryMb, max.memory_mb, 'memory_mb'),
    pids: limits.pids ?? atMost(settings.pids, max.pids_limit, 'pids'),
    diskMb:
      limits.diskMb ?? (settings.diskMb ? atMost(settings.diskMb, max.disk_limit_mb, 'disk_mb') : undefined),
  }
  const saved = modeOf(settings.network)
  const allowed = config.allowed_networks.includes(saved)
  if (request.network === undefined && !allowed)
    notes.push(`network_mode: ${saved} is not allowed here; ${config.defaults.network_mode} is used.`)
  const network = request.network ?? (allowed ? settings.network : undefined)
  const hadRoot = settings.user === 'root'
  const mayRoot = config.allow_root && provider.createOptions.has('user')
  if (request.user === undefined && hadRoot && !mayRoot)
    notes.push('user: root is not allowed here; commands run as the sandbox’s ordinary user.')
  const user = request.user ?? (hadRoot && mayRoot ? ('root' as const) : undefined)
  return { request: { ...request, limits: inherited, network, user }, notes }
}

/** Falls back to the session's row, because snapshots of older daemons have no settings. */
async function recorded(store: Store, snapshot: SnapshotRow): Promise<SnapshotSettings | undefined> {
  if (snapshot.settings !== null) return JSON.parse(snapshot.settings)
  const origin = await store.sessions.get(snapshot.session_id)
  return origin && settingsOf(origin)
}

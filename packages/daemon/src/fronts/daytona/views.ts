import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import { lifetimeEnd, networkOfRow, type Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { networkView } from './network.ts'

/** The facts that only Daytona's API has about a sandbox. */
export interface SandboxRecord {
  readonly public?: boolean
  readonly snapshot?: string
  readonly target?: string
  readonly autoStopInterval?: number
  readonly autoArchiveInterval?: number
  readonly autoDeleteInterval?: number
  /** Counts the rotations of its signing key. */
  readonly signingRound?: number
}

export const sandboxKind = 'sandbox'
export const liveStatuses: readonly Session['status'][] = [
  'creating',
  'running',
  'paused',
  'stopped',
  'crashed',
]

/** The caller's sandbox with this id or name. An ended one is not found, which the vendor calls “destroyed”. */
export async function sandboxOf(
  { services }: FrontPlace,
  caller: Caller,
  idOrName: string,
): Promise<Session> {
  const { sessions } = services
  const byId = await sessions.get(caller, idOrName).catch((error: unknown) => {
    if (SandboxError.is(error, 'not_found')) return undefined
    throw error
  })
  if (byId?.live === 1) return byId
  const [byName] = await sessions.list(caller, { name: idOrName, status: liveStatuses, limit: 1 })
  if (byName) return byName
  throw new SandboxError('not_found', `Sandbox with ID or name ${idOrName} not found`)
}

export async function recordOf(
  { records }: FrontPlace,
  { project_id: project, id }: Session,
): Promise<SandboxRecord> {
  return (await records.get<SandboxRecord>(project, sandboxKind, id)) ?? {}
}

export async function remember(
  place: FrontPlace,
  session: Session,
  changes: Partial<SandboxRecord>,
): Promise<SandboxRecord> {
  const record = { ...(await recordOf(place, session)), ...changes }
  await place.records.put(session.project_id, sandboxKind, session.id, record, session.id)
  return record
}

/** A sandbox as the vendor shows it, without its environment, whose values are not stored. */
export function sandboxView(place: FrontPlace, session: Session, record: SandboxRecord) {
  const end = lifetimeEnd(session)
  return {
    id: session.id,
    organizationId: session.project_id,
    name: session.name ?? session.id,
    snapshot: record.snapshot ?? session.image,
    user: 'sandbox',
    env: {},
    labels: JSON.parse(session.labels) as Record<string, string>,
    public: record.public ?? false,
    ...networkView(networkOfRow(session)),
    target: record.target ?? 'local',
    // Newer SDKs accept only whole numbers.
    cpu: Math.ceil(session.cpu),
    gpu: 0,
    memory: Math.ceil(session.mem_mb / 1024),
    disk: Math.ceil(session.disk_mb / 1024),
    kvm: false,
    state: states[session.status],
    desiredState: session.status === 'creating' ? 'started' : states[session.status],
    ...(session.status === 'crashed' || session.status === 'failed'
      ? { errorReason: session.status_reason, recoverable: session.status === 'crashed' }
      : {}),
    backupState: 'None',
    autoStopInterval: record.autoStopInterval ?? Math.round(session.ttl_ms / 60_000),
    autoPauseInterval: 0,
    autoArchiveInterval: record.autoArchiveInterval ?? 0,
    autoDeleteInterval: record.autoDeleteInterval ?? -1,
    autoDestroyAt:
      end === undefined || session.on_lifetime !== 'destroy' ? undefined : new Date(end).toISOString(),
    volumes: [],
    sandboxClass: 'container',
    createdAt: new Date(session.created_at).toISOString(),
    updatedAt: new Date(session.status_at).toISOString(),
    lastActivityAt: new Date(session.last_activity).toISOString(),
    daemonVersion: place.services.version,
    toolboxProxyUrl: `${place.url}/toolbox`,
  }
}

export type SandboxView = ReturnType<typeof sandboxView>

export async function viewOf(place: FrontPlace, session: Session): Promise<SandboxView> {
  return sandboxView(place, session, await recordOf(place, session))
}

/** A sandbox that ended by itself has the state `error`. It can be recovered, because its disk remains. */
export const states: Readonly<Record<Session['status'], string>> = {
  creating: 'creating',
  running: 'started',
  paused: 'paused',
  stopped: 'stopped',
  crashed: 'error',
  failed: 'error',
  expired: 'destroyed',
  destroyed: 'destroyed',
}

import { SandboxError } from '@sandkasten/sdk'
import { lifetimeEnd, type Session } from '../../sessions/index.ts'
import type { Entry } from './entry.ts'

/** The facts that only OpenSandbox's API has about a sandbox. */
export interface Kept {
  readonly entrypoint: readonly string[]
  readonly extensions: Readonly<Record<string, string>>
  /** Ports of the sandbox need a token. */
  readonly secureAccess: boolean
}

export const kind = 'sandbox'
/** The SDK's default, which only waits. A sandbox keeps running without it. */
export const idleEntrypoint = ['tail', '-f', '/dev/null']
/** Metadata keys with this prefix belong to the vendor. */
const reserved = 'opensandbox.io/'

export function metadataOf<T>(metadata: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  const taken = Object.keys(metadata).find((key) => key.startsWith(reserved))
  if (taken === undefined) return metadata
  throw new SandboxError('invalid_argument', `The metadata key ${taken} is reserved.`, {
    details: { opensandboxCode: 'SANDBOX::INVALID_METADATA_LABEL' },
    hint: `Use a key that does not begin with ${reserved}.`,
  })
}

export async function keptOf({ place }: Entry, session: Session): Promise<Kept> {
  const kept = await place.records.get<Kept>(session.project_id, kind, session.id)
  return kept ?? missing
}

/** The facts of all sandboxes of the project, by id. */
export async function allKept({ place }: Entry, projectId: string): Promise<Map<string, Kept>> {
  return new Map((await place.records.list<Kept>(projectId, kind)).map(({ key, data }) => [key, data]))
}

/** Used for a session that this front did not create, with closed ports. */
const missing: Kept = { entrypoint: idleEntrypoint, extensions: {}, secureAccess: true }

export function sandboxView(session: Session, kept: Kept = missing): object {
  const ends = lifetimeEnd(session)
  return {
    id: session.id,
    image: session.snapshot_id === null ? { uri: session.image } : undefined,
    snapshotId: session.snapshot_id ?? undefined,
    status: {
      state: stateOf(session.status),
      reason: session.status_reason || undefined,
      lastTransitionAt: new Date(session.status_at).toISOString(),
    },
    metadata: JSON.parse(session.labels),
    extensions: kept.extensions,
    entrypoint: kept.entrypoint,
    expiresAt: ends === undefined ? undefined : new Date(ends).toISOString(),
    createdAt: new Date(session.created_at).toISOString(),
  }
}

const states: Readonly<Record<Session['status'], string>> = {
  creating: 'Pending',
  running: 'Running',
  paused: 'Paused',
  stopped: 'Paused',
  crashed: 'Failed',
  failed: 'Failed',
  expired: 'Terminated',
  destroyed: 'Terminated',
}

function stateOf(status: Session['status']): string {
  return states[status]
}

/** The statuses of live sessions that OpenSandbox shows in these states. */
export function statusesOf(wanted: readonly string[] | undefined): Session['status'][] {
  const live = ['creating', 'running', 'paused', 'stopped', 'crashed'] as const
  return live.filter((status) => wanted === undefined || wanted.includes(states[status]))
}

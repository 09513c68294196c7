import { SandboxError, type VolumeMount } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import { type CheckVolumes, type SessionVolume, volumesOf } from '../../store/index.ts'
import type { Context, Session } from '../context.ts'
import { requestLimits } from '../limits/request-limits.ts'
import type { VolumeRequest } from '../plan.ts'
import { lostVolume, noVolume } from './names.ts'

/**
 * Volumes of sessions. A session holds its writable volumes while its row says that its sandbox runs or starts. Nothing
 * else records the hold, so a crash cannot leak it. Holds are checked in the transaction that inserts or starts a
 * session (`store/volumes.ts`).
 */

/** Finds the requested volumes in the caller's project. */
export async function volumesFor(
  { store, instanceId, provider }: Pick<Context, 'store' | 'instanceId' | 'provider'>,
  caller: Caller,
  requests: readonly VolumeRequest[] = [],
): Promise<SessionVolume[]> {
  if (requests.length === 0) return []
  if (!provider.volumes || !provider.createOptions.has('providerOptions'))
    throw new SandboxError('unsupported', 'This daemon has no volumes.', { hint: 'Use the isolator oci.' })
  checkRequests(requests)
  const volumes: SessionVolume[] = []
  for (const { name, path, readOnly = false } of requests) {
    const row = await store.volumes.get(caller.projectId, name)
    if (row?.instance_id !== instanceId) throw noVolume(name)
    if (row.state === 'lost') throw lostVolume(name)
    volumes.push({ id: row.id, name, path, read_only: readOnly, provider_name: row.provider_name })
  }
  return volumes
}

/** The check for the transaction that starts the session. Undefined when the session has no volumes. */
export function volumeCheck(session: Pick<Session, 'volumes'>): CheckVolumes | undefined {
  const volumes = volumesOf(session)
  if (volumes.length === 0) return undefined
  return ({ ready, writers }) => {
    for (const { id, name, read_only: readOnly } of volumes) {
      if (!ready.has(id)) throw lostVolume(name)
      const writer = writers.get(id)
      if (readOnly || writer === undefined) continue
      throw new SandboxError(
        'conflict',
        `The session ${writer} writes to the volume ${JSON.stringify(name)}.`,
        {
          details: { volume: name, session_id: writer },
          hint: {
            sdk: 'Stop that session first, or mount the volume with readOnly: true.',
            http: 'Stop that session first, or mount the volume with read_only: true.',
            cli: 'Stop that session first, or mount the volume with --volume name:/path:ro.',
          },
        },
      )
    }
  }
}

/** The provider's mounts of a session. */
export function mountsOf(session: Pick<Session, 'volumes'>): VolumeMount[] {
  return volumesOf(session).map(({ provider_name: name, path: target, read_only: readOnly }) => ({
    name,
    target,
    readOnly,
  }))
}

/** A copy runs beside its origin, so it cannot write to the same volume. */
export function refuseForkOfWriter(session: Session): void {
  const writable = volumesOf(session).find((volume) => !volume.read_only)
  if (!writable) return
  throw new SandboxError(
    'conflict',
    `The session ${session.id} writes to the volume ${JSON.stringify(writable.name)}, so it cannot be forked.`,
    {
      details: { volume: writable.name, session_id: session.id },
      hint: 'Create a snapshot, and create sessions from it that mount the volume read-only.',
    },
  )
}

/**
 * The provider checks its volumes again, by its own names. It refuses where the store did not while the sandbox of a
 * destroyed session still ends, or when the volume has disappeared.
 */
export function translateVolumeError(session: Pick<Session, 'volumes'>, error: unknown): unknown {
  if (!SandboxError.is(error, 'conflict', 'not_found')) return error
  const volume = volumesOf(session).find(({ provider_name: name }) => name === error.details.volume)
  if (!volume) return error
  if (error.code === 'not_found') return lostVolume(volume.name)
  return new SandboxError(
    'conflict',
    `A session that is ending still writes to the volume ${JSON.stringify(volume.name)}.`,
    { details: { volume: volume.name, retryAfterMs: 1_000 }, hint: 'Try again in a moment.' },
  )
}

function checkRequests(requests: readonly VolumeRequest[]): void {
  if (requests.length > requestLimits.volumes)
    throw invalid(`volumes: ${requests.length} are more than the ${requestLimits.volumes} allowed.`)
  const repeated = (values: string[]) => values.find((value, at) => values.indexOf(value) !== at)
  const name = repeated(requests.map((request) => request.name))
  if (name !== undefined) throw invalid(`volumes: ${JSON.stringify(name)} is mounted twice.`)
  const path = repeated(requests.map((request) => request.path))
  if (path !== undefined) throw invalid(`volumes: two volumes have the path ${JSON.stringify(path)}.`)
}

function invalid(message: string): SandboxError {
  return new SandboxError('invalid_argument', message)
}

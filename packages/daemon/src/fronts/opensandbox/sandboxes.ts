import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import { type CreateRequest, lifetimeEnd, type Session } from '../../sessions/index.ts'
import { notSupported } from '../shared/request.ts'
import { finished } from '../shared/sessions.ts'
import type { Desk } from './desk.ts'
import { networkOf } from './network.ts'
import { limitsOf } from './resources.ts'
import type { CreateBody } from './schemas.ts'

/** What OpenSandbox knows of a sandbox beyond a session. */
interface Kept {
  readonly entrypoint: readonly string[]
  readonly extensions: Readonly<Record<string, string>>
  /** Its ports ask for a token. */
  readonly secureAccess: boolean
}

const kind = 'sandbox'
/** The SDK's: it waits for ever, and so does a sandbox of ours without it. */
const idleEntrypoint = ['tail', '-f', '/dev/null']
/** Its keys are the vendor's own. */
const reserved = 'opensandbox.io/'

/** Made, and running. Nothing of it is left when something fails. */
export async function createSandbox(
  desk: Desk,
  caller: Caller,
  body: CreateBody,
  signal: AbortSignal,
): Promise<Session> {
  const { sessions } = desk.services
  const { session } = await sessions.create(caller, requestOf(desk, body), signal)
  const kept: Kept = {
    entrypoint: body.entrypoint ?? idleEntrypoint,
    extensions: body.extensions ?? {},
    secureAccess: body.secureAccess ?? false,
  }
  const rest = async () => {
    await desk.place.records.put(caller.projectId, kind, session.id, kept, session.id)
    await startEntrypoint(desk, caller, session, kept.entrypoint)
    return session
  }
  return finished(desk.services, caller, session, rest, signal)
}

function requestOf(desk: Desk, body: CreateBody): CreateRequest {
  const { config } = desk.services
  refuseUnheld(body)
  const network = networkOf(body.networkPolicy)
  return {
    ...(body.image ? { image: body.image.uri } : { snapshotId: body.snapshotId! }),
    labels: metadataOf(body.metadata ?? {}),
    env: body.env ?? {},
    ...(body.resourceLimits ? { limits: limitsOf(body.resourceLimits) } : {}),
    network,
    // The timeout alone ends it; without one, it rests when nobody has used it for as long as anything may live here.
    ttlMs: config.max_ttl_seconds * 1000,
    onIdle: 'stop',
    ...(body.timeout === undefined ? {} : { lifetimeMs: body.timeout * 1000 }),
    onLifetime: 'destroy',
    wakeOnUse: false,
  }
}

function refuseUnheld({
  image,
  snapshotId,
  platform,
  volumes,
  credentialProxy,
  extensions,
}: CreateBody): void {
  if (extensions?.poolRef !== undefined) throw notSupported('extensions.poolRef')
  if ((image === undefined) === (snapshotId === undefined))
    throw new SandboxError('invalid_argument', 'Give either image or snapshotId.')
  if (image?.auth) throw notSupported('image.auth', 'Let the operator pull the image.')
  if (volumes?.length) throw notSupported('volumes')
  if (credentialProxy?.enabled) throw notSupported('credentialProxy')
  const arch = process.arch === 'x64' ? 'amd64' : process.arch
  if (platform && (platform.os !== 'linux' || platform.arch !== arch))
    throw new SandboxError('invalid_argument', `The platform here is linux/${arch}.`, {
      hint: 'Leave platform out.',
    })
}

export function metadataOf<T>(metadata: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  const taken = Object.keys(metadata).find((key) => key.startsWith(reserved))
  if (taken === undefined) return metadata
  throw new SandboxError('invalid_argument', `The metadata key ${taken} is reserved.`, {
    details: { opensandboxCode: 'SANDBOX::INVALID_METADATA_LABEL' },
    hint: `Use one that does not begin with ${reserved}.`,
  })
}

/** One that only waits is left out. Others run beside everything else; the sandbox does not end with them. */
async function startEntrypoint(
  { services }: Desk,
  caller: Caller,
  session: Session,
  [cmd, ...args]: readonly string[],
): Promise<void> {
  if (!cmd || JSON.stringify([cmd, ...args]) === JSON.stringify(idleEntrypoint)) return
  const request = { kind: 'run', cmd, args, detached: true } as const
  await services.sessions.commands.start(caller, session.id, 'entrypoint', request)
}

export async function keptOf({ place }: Desk, session: Session): Promise<Kept> {
  const kept = await place.records.get<Kept>(session.project_id, kind, session.id)
  return kept ?? missing
}

/** Of all that the project has. */
export async function allKept({ place }: Desk, projectId: string): Promise<Map<string, Kept>> {
  return new Map((await place.records.list<Kept>(projectId, kind)).map(({ key, data }) => [key, data]))
}

/** Of one that was not made by this front: closed. */
const missing: Kept = { entrypoint: idleEntrypoint, extensions: {}, secureAccess: true }

export function sandboxView(session: Session, kept: Kept = missing): object {
  const ends = lifetimeEnd(session)
  return {
    id: session.id,
    ...(session.snapshot_id === null
      ? { image: { uri: session.image } }
      : { snapshotId: session.snapshot_id }),
    status: {
      state: stateOf(session.status),
      reason: session.status_reason || undefined,
      lastTransitionAt: new Date(session.status_at).toISOString(),
    },
    metadata: JSON.parse(session.labels),
    extensions: kept.extensions,
    entrypoint: kept.entrypoint,
    ...(ends === undefined ? {} : { expiresAt: new Date(ends).toISOString() }),
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

/** The statuses of those that can be seen at all, in these states. */
export function statusesOf(wanted: readonly string[] | undefined): Session['status'][] {
  const live = ['creating', 'running', 'paused', 'stopped', 'crashed'] as const
  return live.filter((status) => wanted === undefined || wanted.includes(states[status]))
}

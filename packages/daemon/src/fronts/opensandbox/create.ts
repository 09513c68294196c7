import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import type { CreateRequest, ProviderFacts, Rules, Session } from '../../sessions/index.ts'
import { notSupported } from '../shared/request.ts'
import { finished } from '../shared/sessions.ts'
import type { Entry } from './entry.ts'
import { limitsOf } from './limits.ts'
import { networkFor } from './network.ts'
import type { CreateBody } from './schemas.ts'
import { idleEntrypoint, type Kept, kind, metadataOf } from './views.ts'

/** Creates a running sandbox. When a step fails, the sandbox is removed. */
export async function createSandbox(
  entry: Entry,
  caller: Caller,
  body: CreateBody,
  signal: AbortSignal,
): Promise<Session> {
  const { sessions } = entry.services
  const { session } = await sessions.create(
    caller,
    requestOf({ rules: await sessions.rules(caller), provider: sessions.provider }, body),
    signal,
  )
  const kept: Kept = {
    entrypoint: body.entrypoint ?? idleEntrypoint,
    extensions: body.extensions ?? {},
    secureAccess: body.secureAccess ?? false,
  }
  const rest = async () => {
    await entry.place.records.put(caller.projectId, kind, session.id, kept, session.id)
    await startEntrypoint(entry, caller, session, kept.entrypoint)
    return session
  }
  return finished(entry.services, caller, session, rest, signal)
}

function requestOf(place: { rules: Rules; provider: ProviderFacts }, body: CreateBody): CreateRequest {
  refuseUnsupported(body)
  return {
    ...(body.image ? { image: body.image.uri } : { snapshotId: body.snapshotId! }),
    labels: metadataOf(body.metadata ?? {}),
    env: body.env ?? {},
    limits: body.resourceLimits && limitsOf(body.resourceLimits),
    network: networkFor(body.networkPolicy, place),
    // Only the timeout ends the sandbox. Without one, it stops after the longest idle time that the daemon allows.
    ttlMs: place.rules.longestIdleMs,
    onIdle: 'stop',
    lifetimeMs: body.timeout && body.timeout * 1000,
    onLifetime: 'destroy',
    wakeOnUse: false,
  }
}

function refuseUnsupported({
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
  if (image?.auth) throw notSupported('image.auth', 'Ask the operator to pull the image.')
  if (volumes?.length) throw notSupported('volumes')
  if (credentialProxy?.enabled) throw notSupported('credentialProxy')
  const arch = process.arch === 'x64' ? 'amd64' : process.arch
  if (platform && (platform.os !== 'linux' || platform.arch !== arch))
    throw new SandboxError('invalid_argument', `This server supports only the platform linux/${arch}.`, {
      hint: 'Leave platform out.',
    })
}

/** Starts the entrypoint beside other commands; the sandbox outlives it. An entrypoint that only waits is skipped. */
async function startEntrypoint(
  { services }: Entry,
  caller: Caller,
  session: Session,
  [cmd, ...args]: readonly string[],
): Promise<void> {
  if (!cmd || JSON.stringify([cmd, ...args]) === JSON.stringify(idleEntrypoint)) return
  const request = { kind: 'run', cmd, args, detached: true } as const
  await services.sessions.commands.start(caller, session.id, 'entrypoint', request)
}

import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { CreateRequest } from '../../sessions/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { finished } from '../shared/sessions.ts'
import type { Call } from './entry.ts'
import { networkFor } from './network.ts'
import { snapshotNamed } from './snapshots.ts'
import { remember, type SandboxRecord, type SandboxView, sandboxView } from './views.ts'

/** The vendor's default: idle minutes until a sandbox is stopped. */
const defaultAutoStop = 15
/** Our own region, and the vendor's, so that code which names one works. */
const targets = ['us', 'eu', 'local']
/** Both names mean the sandbox's only account. */
const users = ['sandbox', 'daytona']

const minutes = z.number().int().nonnegative()
const strings = z.record(z.string(), z.string())

const createBody = z.object({
  name: z.string().min(1).max(200).optional(),
  snapshot: z.string().min(1).optional(),
  buildInfo: z
    .object({ dockerfileContent: z.string(), contextHashes: z.array(z.string()).optional() })
    .optional(),
  user: z.string().optional(),
  env: strings.optional(),
  labels: strings.optional(),
  public: z.boolean().optional(),
  target: z.string().optional(),
  cpu: z.number().positive().optional(),
  memory: z.number().positive().optional(),
  disk: z.number().positive().optional(),
  gpu: z.number().optional(),
  autoStopInterval: minutes.optional(),
  autoPauseInterval: minutes.optional(),
  autoArchiveInterval: minutes.optional(),
  autoDeleteInterval: z.number().int().optional(),
  ttlMinutes: minutes.optional(),
  networkBlockAll: z.boolean().optional(),
  networkAllowList: z.string().optional(),
  domainAllowList: z.string().optional(),
  outboundProxyUrl: z.string().optional(),
  volumes: z.array(z.unknown()).optional(),
  secrets: z.array(z.unknown()).optional(),
  linkedSandbox: z.string().optional(),
  spot: z.boolean().optional(),
})

type CreateBody = z.infer<typeof createBody>

/** Creates a sandbox. It runs when the response is sent, so clients need not poll. */
export async function createSandbox(call: Call): Promise<SandboxView> {
  const { caller, place, events, signal } = call
  const body = parsed(createBody, call.body)
  refuseUnknown(body)
  const { sessions } = place.services
  const rules = await sessions.rules(caller)
  const request: CreateRequest = {
    ...(await sourceOf(call, body)),
    name: body.name,
    labels: body.labels,
    env: body.env,
    limits: limitsOf(body),
    network: networkFor(body, { rules, provider: sessions.provider }),
    ...leasesOf(body, rules.longestIdleMs),
    user: body.user === 'root' ? 'root' : place.services.config.fronts.daytona?.user,
    wakeOnUse: false,
  }
  const { session } = await sessions.create(caller, request, signal)
  const rest = async () =>
    events.created(sandboxView(place, session, await remember(place, session, recordFrom(body))))
  return finished(place.services, caller, session, rest, signal)
}

/**
 * The idle time, the lifetime, and how long a stopped sandbox is kept. An idle sandbox is stopped, as the vendor does;
 * an ephemeral one is deleted instead.
 */
export function leasesOf(
  {
    autoStopInterval,
    autoDeleteInterval = -1,
    ttlMinutes,
  }: Pick<CreateBody, 'autoStopInterval' | 'autoDeleteInterval' | 'ttlMinutes'>,
  longestMs: number,
) {
  return {
    ttlMs: idleOf(autoStopInterval, longestMs),
    onIdle: autoDeleteInterval === 0 ? ('destroy' as const) : ('stop' as const),
    onLifetime: 'destroy' as const,
    stoppedTtlMs: autoDeleteInterval > 0 ? autoDeleteInterval * 60_000 : null,
    lifetimeMs: ttlMinutes ? ttlMinutes * 60_000 : undefined,
  }
}

/** Without an interval, the vendor's default as far as it is allowed. 0 means never. */
function idleOf(minutes: number | undefined, longestMs: number): number {
  if (minutes === undefined) return Math.min(defaultAutoStop * 60_000, longestMs)
  return minutes === 0 ? longestMs : minutes * 60_000
}

async function sourceOf(
  call: Call,
  { snapshot, buildInfo }: CreateBody,
): Promise<Pick<CreateRequest, 'image' | 'snapshotId'>> {
  if (buildInfo) {
    // The SDK sends this for `image: 'name'`. Any other content would require a build.
    const [, image] = /^\s*FROM\s+(\S+)\s*$/i.exec(buildInfo.dockerfileContent) ?? []
    if (image === undefined || buildInfo.contextHashes?.length) throw notSupported('Building an image')
    return { image }
  }
  if (snapshot === undefined) return {}
  const { allowed_images: allowed } = await call.place.services.sessions.rules(call.caller)
  if (allowed.includes(snapshot)) return { image: snapshot }
  const saved = await snapshotNamed(call, snapshot)
  if (saved) return { snapshotId: saved.id }
  throw new SandboxError('not_found', `Snapshot ${snapshot} not found`)
}

function limitsOf({ cpu, memory, disk }: CreateBody): CreateRequest['limits'] {
  if (cpu === undefined && memory === undefined && disk === undefined) return undefined
  return {
    cpu,
    memoryMb: memory && Math.round(memory * 1024),
    diskMb: disk && Math.round(disk * 1024),
  }
}

function refuseUnknown(body: CreateBody): void {
  if (body.target !== undefined && !targets.includes(body.target))
    throw new SandboxError('not_found', `Region ${body.target} not found`)
  if (body.user !== undefined && body.user !== 'root' && !users.includes(body.user))
    throw notSupported('A user other than the sandbox’s')
  if (body.gpu) throw notSupported('A GPU')
  if (body.spot) throw notSupported('A spot sandbox')
  if (body.autoPauseInterval) throw notSupported('Automatic pausing')
  if (body.outboundProxyUrl) throw notSupported('A proxy for outgoing connections')
  if (body.volumes?.length) throw notSupported('Mounting volumes')
  if (body.secrets?.length) throw notSupported('Secrets')
  if (body.linkedSandbox !== undefined) throw notSupported('Linking sandboxes')
}

function recordFrom(body: CreateBody): SandboxRecord {
  const image = /^\s*FROM\s+(\S+)/i.exec(body.buildInfo?.dockerfileContent ?? '')?.[1]
  const snapshot = body.snapshot ?? image
  return {
    public: body.public ?? false,
    target: body.target ?? 'local',
    autoStopInterval: body.autoStopInterval ?? defaultAutoStop,
    autoArchiveInterval: body.autoArchiveInterval ?? 0,
    autoDeleteInterval: body.autoDeleteInterval ?? -1,
    snapshot,
  }
}

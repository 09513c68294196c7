import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import * as fields from '../../http/fields.ts'
import type { Caller } from '../../keys/index.ts'
import type { CreateRequest, Rules, Session } from '../../sessions/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { finished } from '../shared/sessions.ts'
import { type Entry, frontLabel, frontName, type Kept, type VercelCall } from './entry.ts'
import { networkFor, networkPolicy } from './network.ts'
import { findSnapshot } from './snapshots.ts'
import { fill, source } from './source.ts'
import { region } from './views.ts'

/** The vendor's defaults. */
const defaultTimeoutMs = 5 * 60_000
const memoryPerCpuMb = 2048
const mostPorts = 15
const usualPids = 4096
/** The vendor's runtimes. They mean the daemon's default image if no allowed image has the program. */
const runtimes = /^(node(22|24|26)|python3\.13)$/
const defaultImage = /^vercel\/sandbox\/universal(:.*)?$/

export const portList = z.array(z.int().min(1).max(65_535)).max(mostPorts)
export const tags = z
  .record(z.string().min(1).max(200), z.string().max(1000))
  .refine((all) => Object.keys(all).length <= 5, 'has more than five entries')
export const timeout = z.number().positive()

export const overrides = z.looseObject({
  name: fields.name.optional(),
  ports: portList.optional(),
  timeout: timeout.optional(),
  resources: z
    .looseObject({ vcpus: z.number().positive().optional(), memory: z.number().positive().optional() })
    .optional(),
  image: z.string().min(1).optional(),
  runtime: z.string().min(1).optional(),
  persistent: z.boolean().optional(),
  networkPolicy: networkPolicy.optional(),
  env: fields.env.optional(),
  tags: tags.optional(),
  snapshotExpiration: z.number().nonnegative().optional(),
  mounts: z.record(z.string(), z.unknown()).optional(),
  networkId: z.string().nullish(),
  region: z.string().optional(),
  failoverRegions: z.array(z.string()).optional(),
  keepLastSnapshots: z.unknown().optional(),
})

const createBody = overrides.extend({ source: source.optional() })

/** Creates a running sandbox with open ports and its source. When a step fails, the sandbox is removed. */
export async function createSandbox(
  entry: Entry,
  call: VercelCall,
): Promise<{ session: Session; kept: Kept }> {
  const { sessions } = entry.services
  const body = parsed(createBody, call.body)
  refuseAbsent(body)
  const rules = await sessions.rules(call.caller)
  const snapshotId = body.source?.type === 'snapshot' ? body.source.snapshotId : undefined
  const kept: Kept = {
    timeoutMs: body.timeout ?? Math.min(defaultTimeoutMs, rules.longestLifetimeMs),
    persistent: body.persistent ?? true,
    runtime: body.runtime,
    currentSnapshotId: snapshotId,
    snapshotExpirationMs: body.snapshotExpiration,
  }
  if (snapshotId !== undefined) await findSnapshot(entry, call.caller, snapshotId)
  const request: CreateRequest = {
    name: body.name ?? `sandbox-${randomId(10)}`,
    labels: { ...body.tags, [frontLabel]: frontName },
    env: body.env,
    image: await imageOf(entry, call.caller, rules, body),
    snapshotId,
    limits: limitsOf(entry, rules, body.resources),
    network: networkFor(body.networkPolicy, { rules, provider: sessions.provider }),
    keepHeaders: true,
    // Only the timeout ends the sandbox, because the vendor has no idle time.
    ttlMs: rules.longestIdleMs,
    onIdle: kept.persistent ? 'stop' : 'destroy',
    lifetimeMs: kept.timeoutMs,
    onLifetime: kept.persistent ? 'stop' : 'destroy',
    user: entry.services.config.fronts.vercel?.user,
    wakeOnUse: false,
  }
  const { session } = await sessions.create(call.caller, request, call.signal)
  const rest = async () => {
    await entry.keep(session, kept)
    await openPorts(entry, call.caller, session, body.ports ?? [])
    if (body.source) await fill(entry, call, session, body.source)
    return { session: await sessions.get(call.caller, session.id), kept }
  }
  return finished(entry.services, call.caller, session, rest, call.signal)
}

/** Opens exactly these ports. They are public, as with the vendor. */
export async function openPorts(
  entry: Entry,
  caller: Caller,
  session: Session,
  wanted: readonly number[],
): Promise<void> {
  const { ports } = entry.services
  const open = await ports.listOpen(session)
  for (const { port } of open) if (!wanted.includes(port)) await ports.close(caller, session.id, String(port))
  for (const port of wanted) await ports.open(caller, session.id, { port, visibility: 'public' })
}

export function refuseAbsent(body: z.infer<typeof overrides>): void {
  if (body.mounts && Object.keys(body.mounts).length > 0) throw notSupported('Mounting drives')
  if (body.networkId) throw notSupported('Secure Compute')
  if (body.region !== undefined && body.region !== region)
    throw notSupported(`The region “${body.region}”`, `Leave it out, or use “${region}”.`)
  if (body.failoverRegions && body.failoverRegions.length > 0)
    throw notSupported('Failing over to other regions')
  if (body.keepLastSnapshots) throw notSupported('Keeping the last snapshots only')
}

/** Vercel's sandboxes are machines: memory follows from the processors, and processes are not limited. */
function limitsOf(entry: Entry, rules: Rules, resources: { vcpus?: number; memory?: number } | undefined) {
  const { sessions } = entry.services
  const { vcpus } = resources ?? {}
  const asked =
    vcpus === undefined ? {} : { cpu: vcpus, memoryMb: resources?.memory ?? vcpus * memoryPerCpuMb }
  // If the provider cannot enforce limits, pass only limits that the caller asked for.
  if (!sessions.provider.createOptions.has('resources')) return asked
  return { ...asked, pids: Math.max(rules.defaults.pids_limit, Math.min(usualPids, rules.max.pids_limit)) }
}

async function imageOf(
  entry: Entry,
  caller: Caller,
  { allowed_images: allowed }: Rules,
  { image, runtime }: z.infer<typeof createBody>,
): Promise<string | undefined> {
  const wanted = image ?? runtime
  if (wanted === undefined || allowed.includes(wanted)) return wanted
  if (image !== undefined) return defaultImage.test(image) ? undefined : image
  try {
    return await entry.services.sessions.imageOfRuntime(caller, wanted)
  } catch (error) {
    if (SandboxError.is(error, 'unsupported') && runtimes.test(wanted)) return undefined
    throw error
  }
}

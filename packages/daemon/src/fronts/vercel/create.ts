import { randomId } from '@sandkasten/sdk/provider'
import { cloneRepo } from '@sandkasten/sdk/recipes'
import { z } from 'zod'
import * as schemas from '../../api/schemas.ts'
import type { Caller } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import {
  frontLabel,
  frontName,
  type Kept,
  notHere,
  parsed,
  type VercelCall,
  type VercelDesk,
} from './desk.ts'
import { region } from './views.ts'

/** What the vendor promises where nothing is said. */
const defaultTimeoutMs = 5 * 60_000
const memoryPerCpuMb = 2048
const mostPorts = 15
const usualPids = 4096
/** Kinds of base image that the vendor knows by a name; here each is the daemon's default image, unless one is called so. */
const runtimes = /^(node|python)\d+(\.\d+)?$/
const defaultImage = /^vercel\/sandbox\/universal(:.*)?$/

export const portList = z.array(z.int().min(1).max(65_535)).max(mostPorts)
export const tags = z
  .record(z.string().min(1).max(200), z.string().max(1000))
  .refine((all) => Object.keys(all).length <= 5, 'has more than five entries')
export const timeout = z.number().positive()
export const networkPolicy = z.looseObject({ mode: z.string().optional() })

export const overrides = z.looseObject({
  name: schemas.name.optional(),
  ports: portList.optional(),
  timeout: timeout.optional(),
  resources: z
    .looseObject({ vcpus: z.number().positive().optional(), memory: z.number().positive().optional() })
    .optional(),
  image: z.string().min(1).optional(),
  runtime: z.string().min(1).optional(),
  persistent: z.boolean().optional(),
  networkPolicy: networkPolicy.optional(),
  env: schemas.env.optional(),
  tags: tags.optional(),
  snapshotExpiration: z.number().nonnegative().optional(),
  mounts: z.record(z.string(), z.unknown()).optional(),
  networkId: z.string().nullish(),
  region: z.string().optional(),
  failoverRegions: z.array(z.string()).optional(),
  keepLastSnapshots: z.unknown().optional(),
})

const source = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('git'),
    url: z.string().min(1),
    depth: z.int().positive().optional(),
    revision: z.string().min(1).optional(),
    username: z.string().optional(),
    password: z.string().optional(),
  }),
  z.object({ type: z.literal('tarball'), url: z.string().min(1) }),
  z.object({ type: z.literal('snapshot'), snapshotId: z.string().min(1) }),
])

const createBody = overrides.extend({ source: source.optional() })

/** A new sandbox that runs, with its ports open and its source in place; when any of it fails, nothing is left. */
export async function createSandbox(
  desk: VercelDesk,
  call: VercelCall,
): Promise<{ session: Session; kept: Kept }> {
  const { sessions } = desk.services
  const body = parsed(createBody, call.body)
  refuseAbsent(body)
  const kept: Kept = {
    timeoutMs: body.timeout ?? Math.min(defaultTimeoutMs, desk.longestMs),
    persistent: body.persistent ?? true,
    ...(body.runtime === undefined ? {} : { runtime: body.runtime }),
    ...(body.source?.type === 'snapshot' ? { currentSnapshotId: body.source.snapshotId } : {}),
    ...(body.snapshotExpiration === undefined ? {} : { snapshotExpirationMs: body.snapshotExpiration }),
  }
  const { session } = await sessions.create(call.caller, {
    name: body.name ?? `sandbox-${randomId(10)}`,
    labels: { ...body.tags, [frontLabel]: frontName },
    env: body.env,
    image: imageOf(desk, body),
    ...(body.source?.type === 'snapshot' ? { snapshotId: body.source.snapshotId } : {}),
    limits: limitsOf(desk, body.resources),
    network: networkOf(body.networkPolicy),
    // Only its timeout ends it: the vendor knows no idle time.
    ttlMs: desk.longestMs,
    onIdle: kept.persistent ? 'stop' : 'destroy',
    lifetimeMs: kept.timeoutMs,
    onLifetime: kept.persistent ? 'stop' : 'destroy',
    wakeOnUse: false,
  })
  try {
    await desk.keep(session, kept)
    await openPorts(desk, call.caller, session, body.ports ?? [])
    if (body.source) await fill(desk, call.caller, session, body.source)
    if (call.signal.aborted) await sessions.destroy(call.caller, session.id)
    return { session: await sessions.get(call.caller, session.id), kept }
  } catch (error) {
    await sessions.destroy(call.caller, session.id)
    throw error
  }
}

/** Exactly these are open afterwards. As with the vendor, whoever knows the address may come. */
export async function openPorts(
  desk: VercelDesk,
  caller: Caller,
  session: Session,
  wanted: readonly number[],
): Promise<void> {
  const { ports, sessions } = desk.services
  const open = await sessions.context.store.ports.list(session.id)
  for (const { port } of open) if (!wanted.includes(port)) await ports.close(caller, session.id, String(port))
  for (const port of wanted) await ports.open(caller, session.id, { port, visibility: 'public' })
}

export function refuseAbsent(body: z.infer<typeof overrides>): void {
  if (body.mounts && Object.keys(body.mounts).length > 0) throw notHere('Mounting drives')
  if (body.networkId) throw notHere('Secure Compute')
  if (body.region !== undefined && body.region !== region)
    throw notHere(`The region “${body.region}”`, `Leave it out: there is one, “${region}”.`)
  if (body.failoverRegions && body.failoverRegions.length > 0) throw notHere('Failing over to other regions')
  if (body.keepLastSnapshots) throw notHere('Keeping the last snapshots only')
}

export function networkOf(policy: z.infer<typeof networkPolicy> | undefined): 'none' | 'open' | undefined {
  if (policy === undefined) return undefined
  if (policy.mode === 'allow-all') return 'open'
  if (policy.mode === 'deny-all') return 'none'
  throw notHere('A network policy with rules', 'Use "allow-all" or "deny-all".')
}

/** The vendor's sandboxes are machines: memory comes with processors, and nobody counts their processes. */
function limitsOf(desk: VercelDesk, resources: { vcpus?: number; memory?: number } | undefined) {
  const { config, sessions } = desk.services
  const { vcpus } = resources ?? {}
  const asked =
    vcpus === undefined ? {} : { cpu: vcpus, memoryMb: resources?.memory ?? vcpus * memoryPerCpuMb }
  // Where nothing holds a limit, one that was not asked for is not set either.
  if (!sessions.context.provider.createOptions.has('resources')) return asked
  return { ...asked, pids: Math.max(config.defaults.pids_limit, Math.min(usualPids, config.max.pids_limit)) }
}

function imageOf(desk: VercelDesk, body: z.infer<typeof createBody>): string | undefined {
  const { allowed_images: allowed } = desk.services.config
  const wanted = body.image ?? body.runtime
  if (wanted === undefined || allowed.includes(wanted)) return wanted
  if (body.runtime !== undefined && runtimes.test(wanted)) return undefined
  if (body.image !== undefined && defaultImage.test(wanted)) return undefined
  return wanted
}

async function fill(
  desk: VercelDesk,
  caller: Caller,
  session: Session,
  from: z.infer<typeof source>,
): Promise<void> {
  if (from.type === 'snapshot') return
  await desk.services.sessions.use.use(caller, session.id, async ({ sandbox }) => {
    if (from.type === 'git') {
      await cloneRepo(sandbox, {
        url: from.url,
        path: '.',
        ...(from.password === undefined ? {} : { token: from.password }),
        ...(from.revision === undefined || /^[0-9a-f]{40}$/.test(from.revision)
          ? {}
          : { branch: from.revision }),
        ...(from.depth === undefined ? {} : { depth: from.depth }),
      })
      if (from.revision === undefined || !/^[0-9a-f]{40}$/.test(from.revision)) return
      await mustRun(sandbox.runCommand({ cmd: 'git', args: ['checkout', '--quiet', from.revision] }))
      return
    }
    // The address is an argument of its own, behind `--`: never a part of the line, never an option.
    const line = 'curl -fsSL -- "$1" | tar -xzf - --strip-components=1 --no-same-owner'
    await mustRun(sandbox.runCommand({ cmd: 'bash', args: ['-o', 'pipefail', '-c', line, 'bash', from.url] }))
  })
}

async function mustRun(running: Promise<{ exitCode: number; stderr: string }>): Promise<void> {
  const { exitCode, stderr } = await running
  if (exitCode !== 0) throw notHere(`This source (${stderr.trim().slice(-300)})`, 'Check its address.')
}

import { type CreateSandboxOpts, SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../config/index.ts'
import type { Context } from './context.ts'

/** The settings of a new session that a caller may choose. The configuration provides the rest. */
export interface CreateRequest {
  image?: string
  snapshotId?: string
  name?: string
  labels?: Readonly<Record<string, string>>
  env?: Readonly<Record<string, string>>
  limits?: { cpu?: number; memoryMb?: number; pids?: number; diskMb?: number }
  network?: 'none' | 'open'
  ttlMs?: number
  onIdle?: EndAction
  lifetimeMs?: number
  onLifetime?: EndAction
  /** How long a stopped session is kept. Default: until a caller destroys it. */
  stoppedTtlMs?: number | null
  wakeOnUse?: boolean
  /** The name of the sandbox's user on the image `host`. The session's working directory is its home. */
  account?: string
  /** A repeated request with the same key returns the first session. */
  idempotencyKey?: string
}

/** A create request with all defaults, checked against the limits. */
export interface Plan {
  readonly image: string
  readonly cpu: number
  readonly memoryMb: number
  readonly pids: number
  readonly diskMb: number
  readonly network: 'none' | 'open'
  readonly ttlMs: number
  readonly onIdle: EndAction
  readonly lifetimeMs: number | null
  readonly onLifetime: EndAction
  readonly wakeOnUse: boolean
  readonly account?: string
}

export function planOf(
  { config, provider }: Pick<Context, 'config' | 'provider'>,
  request: CreateRequest,
): Plan {
  const { defaults, max } = config
  const image = request.image ?? config.default_image
  if (!config.allowed_images.includes(image))
    throw refused(
      `The image “${image}” is not allowed here.`,
      `Use one of ${config.allowed_images.join(', ')}, or add it to allowed_images.`,
    )
  const network = request.network ?? defaults.network_mode
  if (!config.allowed_networks.includes(network))
    throw new SandboxError('forbidden', `The network “${network}” is not allowed here.`, {
      hint: `Use ${config.allowed_networks.join(' or ')}, or add it to allowed_networks.`,
    })
  const limits = request.limits ?? {}
  refuseWithoutLimits(provider, request)
  const plan: Plan = {
    image,
    network,
    cpu: atMost(limits.cpu ?? defaults.cpu_limit, max.cpu_limit, 'limits.cpu', 'max.cpu_limit'),
    memoryMb: atMost(
      limits.memoryMb ?? defaults.memory_mb,
      max.memory_mb,
      'limits.memory_mb',
      'max.memory_mb',
    ),
    pids: atMost(limits.pids ?? defaults.pids_limit, max.pids_limit, 'limits.pids', 'max.pids_limit'),
    diskMb: atMost(
      limits.diskMb ?? defaults.disk_limit_mb ?? 0,
      max.disk_limit_mb,
      'limits.disk_mb',
      'max.disk_limit_mb',
    ),
    ttlMs: atMost(
      request.ttlMs ?? config.session_ttl_seconds * 1000,
      config.max_ttl_seconds * 1000,
      'ttl_seconds',
      'max_ttl_seconds',
    ),
    onIdle: request.onIdle ?? config.on_idle,
    lifetimeMs: lifetimeOf(request, config),
    onLifetime: request.onLifetime ?? config.on_lifetime,
    wakeOnUse: request.wakeOnUse ?? config.wake_on_use,
    account: request.account,
  }
  for (const action of [plan.onIdle, plan.onLifetime])
    if (action === 'snapshot-and-stop' && !provider.capabilities.snapshot)
      throw new SandboxError(
        'unsupported',
        'This daemon cannot save sandboxes, so snapshot-and-stop is not supported.',
        {
          hint: 'Use stop or destroy.',
        },
      )
  if ([plan.onIdle, plan.onLifetime].includes('pause') && !provider.capabilities.pause)
    throw new SandboxError('unsupported', 'This daemon cannot pause sandboxes.', {
      hint: 'Use stop or destroy.',
    })
  return plan
}

/** Translates the plan to the provider's options, without options that the provider does not know. */
export function createOptions(
  { config, provider }: Pick<Context, 'config' | 'provider'>,
  plan: Plan,
  given: { env: Readonly<Record<string, string>>; labels: Record<string, string>; providerSnapshot?: string },
): CreateSandboxOpts {
  const knows = (option: Parameters<typeof provider.createOptions.has>[0]) =>
    provider.createOptions.has(option)
  return {
    labels: given.labels,
    envVars: given.env,
    snapshotId: given.providerSnapshot,
    image:
      knows('image') && given.providerSnapshot === undefined
        ? (config.images[plan.image] ?? plan.image)
        : undefined,
    resources: knows('resources')
      ? { vcpus: plan.cpu, memoryMb: plan.memoryMb, diskMb: plan.diskMb > 0 ? plan.diskMb : undefined }
      : undefined,
    providerOptions: knows('providerOptions')
      ? {
          network: plan.network,
          pids: plan.pids,
          tmpMb: config.defaults.tmp_limit_mb,
          account: plan.account,
        }
      : undefined,
  }
}

function lifetimeOf(request: CreateRequest, config: Context['config']): number | null {
  const ms =
    request.lifetimeMs ?? (config.lifetime_seconds === undefined ? undefined : config.lifetime_seconds * 1000)
  return ms === undefined
    ? null
    : atMost(ms, config.max_ttl_seconds * 1000, 'lifetime_seconds', 'max_ttl_seconds')
}

/** Refuses requested limits that the provider cannot enforce. Defaults of the configuration are ignored instead. */
function refuseWithoutLimits(provider: Context['provider'], request: CreateRequest): void {
  if (provider.createOptions.has('resources')) return
  const asked = request.limits && Object.values(request.limits).some((value) => value !== undefined)
  if (!asked && request.network === undefined) return
  throw new SandboxError(
    'unsupported',
    'Sandboxes of this daemon are not isolated: they have no limits, and use the machine’s network.',
    {
      hint: {
        sdk: 'Leave resources and network out, or use a daemon with the isolator oci.',
        http: 'Leave limits and network_mode out, or run the daemon with the isolator oci.',
        cli: 'Leave limits and --network out, or run the daemon with the isolator oci.',
      },
    },
  )
}

function atMost(value: number, most: number, option: string, setting: string): number {
  if (value <= most) return value
  throw refused(`${option} exceeds the limit of ${most}.`, `Ask for less, or raise ${setting}.`)
}

function refused(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}

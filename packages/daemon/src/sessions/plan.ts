import { type CreateSandboxOpts, SandboxError, type VolumeMount } from '@sandkasten/sdk'
import type { EndAction } from '../config/index.ts'
import type { Context } from './context.ts'
import {
  checkedNetwork,
  type GivenNetwork,
  modeOf,
  providerNetwork,
  type SessionNetwork,
} from './network/policy.ts'

/** The settings of a new session that a caller may choose. The configuration provides the rest. */
export interface CreateRequest {
  image?: string
  /** Selects one of the allowed images by a program in it: `node24`. */
  runtime?: string
  snapshotId?: string
  name?: string
  labels?: Readonly<Record<string, string>>
  env?: Readonly<Record<string, string>>
  limits?: { cpu?: number; memoryMb?: number; pids?: number; diskMb?: number }
  network?: GivenNetwork
  /** The headers of the network's transforms are credentials as text: keep them as secrets. */
  keepHeaders?: true
  ttlMs?: number
  onIdle?: EndAction
  lifetimeMs?: number
  onLifetime?: EndAction
  /** How long a stopped session is kept. Default: until a caller destroys it. */
  stoppedTtlMs?: number | null
  wakeOnUse?: boolean
  volumes?: readonly VolumeRequest[]
  /** The name of the sandbox's user on the image `host`. The session's working directory is its home. */
  account?: string
  /** Commands run as root of the sandbox. */
  user?: 'root'
  /** Where `/tmp` is: on the disk, or in memory and empty after each start. */
  tmp?: 'disk' | 'memory'
  /** A repeated request with the same key returns the first session. */
  idempotencyKey?: string
}

/** A volume of the project, by its name, and where to mount it. */
export interface VolumeRequest {
  readonly name: string
  readonly path: string
  readonly readOnly?: boolean
}

/** A create request with all defaults, checked against the limits. */
export interface Plan {
  readonly image: string
  readonly cpu: number
  readonly memoryMb: number
  readonly pids: number
  readonly diskMb: number
  readonly network: SessionNetwork
  readonly ttlMs: number
  readonly onIdle: EndAction
  readonly lifetimeMs: number | null
  readonly onLifetime: EndAction
  readonly wakeOnUse: boolean
  readonly account?: string
  readonly tmp: 'disk' | 'memory'
  readonly user?: 'root'
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
  const network = networkOf(config, provider, request.network ?? defaults.network_mode)
  if (request.user !== undefined) refuseRoot(config, provider)
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
    tmp: request.tmp ?? defaults.tmp,
    user: request.user,
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
  given: {
    env: Readonly<Record<string, string>>
    labels: Record<string, string>
    providerSnapshot?: string
    volumes?: readonly VolumeMount[]
  },
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
    ...(plan.user === undefined ? {} : { user: plan.user }),
    ...(knows('network') ? { network: providerNetwork(plan.network, config) } : {}),
    providerOptions: knows('providerOptions')
      ? {
          pids: plan.pids,
          tmp: plan.tmp,
          ...(plan.tmp === 'memory' ? { tmpMb: config.defaults.tmp_limit_mb } : {}),
          account: plan.account,
          ...(given.volumes?.length ? { volumes: given.volumes } : {}),
        }
      : undefined,
  }
}

/** Checks a network that a session is created with or changes to. */
export function networkOf(
  config: Context['config'],
  provider: Context['provider'],
  given: GivenNetwork,
): SessionNetwork {
  const mode = modeOf(given)
  if (!config.allowed_networks.includes(mode))
    throw new SandboxError('forbidden', `The network “${mode}” is not allowed here.`, {
      hint: `Use ${config.allowed_networks.join(' or ')}, or add it to allowed_networks.`,
    })
  if (mode === 'policy' && !provider.capabilities.egress)
    throw new SandboxError('unsupported', 'Sandboxes of this daemon have no network policies.', {
      hint: 'Use none or open, or run the daemon with the isolator oci.',
    })
  return checkedNetwork(given, config)
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

function refuseRoot(config: Context['config'], provider: Context['provider']): void {
  if (!config.allow_root)
    throw new SandboxError('forbidden', 'Sessions with the user root are not allowed here.', {
      hint: 'Omit the user, or set allow_root: true in the daemon’s configuration.',
    })
  if (!provider.createOptions.has('user'))
    throw new SandboxError('unsupported', 'Sandboxes of this daemon cannot run commands as root.', {
      hint: 'Omit the user, or run the daemon as root with the isolator oci.',
    })
}

function atMost(value: number, most: number, option: string, setting: string): number {
  if (value <= most) return value
  throw refused(`${option} exceeds the limit of ${most}.`, `Ask for less, or raise ${setting}.`)
}

function refused(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}

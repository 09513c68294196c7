import { existsSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { SandboxError, type VolumeMount } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type { CreateSpec, NormalNetwork } from '@sandkasten/sdk/provider'
import type { ImageLayers } from '../images/index.ts'
import type { HostMount, IsolatorSpec } from '../isolators/isolator.ts'
import { checkedVolume } from '../volumes/volumes.ts'

/** Values for options that `create` does not set. */
export interface EngineDefaults {
  readonly image: string
  readonly memoryMb: number
  readonly vcpus: number
  readonly pids: number
  /** Where `/tmp` is: on the sandbox's disk, or in memory and empty after each start. */
  readonly tmp: 'disk' | 'memory'
  /** The size of a `/tmp` in memory. */
  readonly tmpMb: number
  readonly network: NormalNetwork
  /** Without one, a disk has no limit. */
  readonly diskMb?: number
  /** Whether shells are login shells. */
  readonly login: boolean
}

export const engineDefaults: EngineDefaults = {
  image: 'host',
  memoryMb: 1024,
  vcpus: 1,
  pids: 512,
  tmp: 'disk',
  tmpMb: 256,
  network: 'none',
  login: true,
}

/** The engine's own options, in `providerOptions` of `create`. */
export interface EngineOptions {
  /** Folders and files of this machine, read-only unless a mount says otherwise. */
  mounts?: ReadonlyArray<FolderMount>
  /** Volumes of this provider. Many may read one, and one sandbox at a time may write. */
  volumes?: ReadonlyArray<VolumeMount>
  pids?: number
  /**
   * Where `/tmp` is. `disk` (the default): it is kept like any other folder. `memory`: it is empty after each start,
   * is in no snapshot or fork, and counts as memory.
   */
  tmp?: 'disk' | 'memory'
  /** The size of a `/tmp` in memory. Implies `tmp: 'memory'`. */
  tmpMb?: number
  /**
   * The name of the sandbox's user instead of `sandbox`; its home is `/home/<account>`. For the image `host` only. A
   * snapshot keeps the account of its sandbox.
   */
  account?: string
}

export interface FolderMount {
  readonly source: string
  readonly target: string
  /**
   * False: the sandbox may write there as the owner of `source`. Its files belong to that owner and never have a
   * set-user-ID bit. The sandbox controls everything else in the folder, so treat it as untrusted.
   */
  readonly readOnly?: boolean
}

/** The part of the record that is needed to start the sandbox again. */
export interface EngineExtra
  extends Omit<IsolatorSpec, 'sandboxId' | 'folder' | 'env' | 'layers' | 'network' | 'authority'> {
  readonly network: NormalNetwork
  /** The network `none` is that of a policy that allows nothing: it was set while the sandbox ran. */
  readonly closed?: true | undefined
  /** Ids of the layers below its disk, uppermost first. */
  readonly layers: readonly string[]
  readonly volumes: readonly VolumeMount[]
  /** The layer that its disk is being turned into (`disks/capture.ts`). */
  readonly sealing?: string
}

/** Finds an image of the store, or throws with the command that gets it. `host` means that the image `host` replaces it. */
export type FindImage = (name: string) => ImageLayers | 'host' | Promise<ImageLayers | 'host'>

export async function planOf(
  spec: CreateSpec,
  defaults: EngineDefaults,
  findImage: FindImage,
): Promise<EngineExtra> {
  const options = checkedOptions(spec.providerOptions)
  const {
    vcpus = defaults.vcpus,
    memoryMb = defaults.memoryMb,
    diskMb = defaults.diskMb,
  } = spec.resources ?? {}
  return {
    ...(await imageOf(spec.image ?? defaults.image, findImage)),
    ...accountOf(options.account, spec.image ?? defaults.image),
    limits: {
      memoryBytes: positive(memoryMb, 'resources.memoryMb') * 1024 * 1024,
      cpus: positive(vcpus, 'resources.vcpus'),
      pids: positive(options.pids ?? defaults.pids, 'providerOptions.pids'),
      ...tmpOf(options, defaults),
      shmBytes: 64 * 1024 * 1024,
      openFiles: 4096,
      diskBytes: diskMb === undefined ? undefined : diskBytes(diskMb),
    },
    mounts: (options.mounts ?? []).map(checkedMount),
    network: spec.network ?? defaults.network,
    hostname: 'sandbox',
    ...(spec.user === 'root' ? { user: 'root' as const } : {}),
    layers: [],
    volumes: (options.volumes ?? []).map(checkedVolumeMount),
  }
}

export function extraOf(record: SandboxRecord): EngineExtra {
  // Older records have no layers and volumes.
  return { layers: [], volumes: [], ...record.extra } as unknown as EngineExtra
}

export function withExtra(record: SandboxRecord, extra: EngineExtra): SandboxRecord {
  return { ...record, extra: { ...extra } }
}

/** The network of a spec whose gateway is not known yet; `SandboxNetworks` adds it for a start. */
export function networkBefore({ network }: EngineExtra): IsolatorSpec['network'] {
  return typeof network === 'object' ? 'none' : network
}

async function imageOf(
  wanted: string,
  findImage: FindImage,
): Promise<Pick<EngineExtra, 'image' | 'workdir'>> {
  if (wanted === 'host') return { image: 'host', workdir: '/workspace' }
  if (path.isAbsolute(wanted)) return { image: { rootfs: wanted }, workdir: '/workspace' }
  const found = await findImage(wanted)
  if (found === 'host') return { image: 'host', workdir: '/workspace' }
  const { name, digest, layers, config } = found
  const { env, user, workdir } = config
  return { image: { name, digest, layers, env, user }, workdir }
}

/** Rejects names that the image already uses. */
function accountOf(
  account: string | undefined,
  image: string,
): Pick<EngineExtra, 'account' | 'workdir'> | object {
  if (account === undefined) return {}
  if (image !== 'host')
    throw new SandboxError('invalid_argument', `The image “${image}” has its own account.`, {
      hint: 'Omit the account, or use the image `host`.',
    })
  if (!/^[a-z_][a-z0-9_-]{0,31}$/.test(account) || ['root', 'nobody'].includes(account))
    throw new SandboxError('invalid_argument', `“${account}” is not a valid account name.`, {
      hint: 'Use up to 32 lowercase letters, digits, - and _.',
    })
  return { account, workdir: homeOf(account) }
}

export function homeOf(account: string): string {
  return `/home/${account}`
}

function checkedOptions(given: CreateSpec['providerOptions']): EngineOptions {
  const known = ['mounts', 'volumes', 'pids', 'tmp', 'tmpMb', 'account']
  for (const key of Object.keys(given ?? {})) {
    if (!known.includes(key))
      throw new SandboxError('invalid_argument', `The engine has no option \`${key}\`.`, {
        hint: `It takes: ${known.join(', ')}.`,
      })
  }
  const options = (given ?? {}) as EngineOptions
  if (options.tmp !== undefined && options.tmp !== 'disk' && options.tmp !== 'memory')
    throw new SandboxError('invalid_argument', `\`providerOptions.tmp\` is ${String(options.tmp)}.`, {
      hint: 'Use disk or memory.',
    })
  if (options.tmp === 'disk' && options.tmpMb !== undefined)
    throw new SandboxError('invalid_argument', '`providerOptions.tmpMb` needs a /tmp in memory.', {
      hint: 'Give no size for a /tmp on the disk: it counts against the limit of the disk. Or put /tmp in memory.',
    })
  return options
}

/** Without a size, the isolator leaves `/tmp` on the disk. */
function tmpOf({ tmp, tmpMb }: EngineOptions, defaults: EngineDefaults): { tmpBytes?: number } {
  const size = positive(tmpMb ?? defaults.tmpMb, 'providerOptions.tmpMb') * 1024 * 1024
  return (tmp ?? (tmpMb === undefined ? defaults.tmp : 'memory')) === 'memory' ? { tmpBytes: size } : {}
}

function checkedMount(mount: FolderMount): HostMount {
  const { source, target, readOnly = true } = mount ?? {}
  if (typeof readOnly !== 'boolean')
    throw new SandboxError('invalid_argument', `The mount’s readOnly is ${String(readOnly)}.`, {
      hint: 'Use true or false.',
    })
  for (const [name, value] of Object.entries({ source, target })) {
    if (typeof value === 'string' && path.isAbsolute(value) && !value.includes('\0')) continue
    throw new SandboxError(
      'invalid_argument',
      `The mount’s ${name} (${String(value)}) must be an absolute path.`,
    )
  }
  // Resolved once. A sandbox that writes to one mount must not redirect another with a symbolic link before the next
  // start.
  const paths = { source: realPath(source), target: path.posix.normalize(target), exact: true }
  return readOnly ? paths : { ...paths, readOnly, asOwner: true }
}

/** The isolator rejects a missing source, with the path that the caller gave. */
function realPath(source: string): string {
  return existsSync(source) ? realpathSync(source) : path.normalize(source)
}

function checkedVolumeMount(mount: VolumeMount): VolumeMount {
  const { name, target, readOnly = false } = mount ?? {}
  if (typeof target !== 'string' || !path.isAbsolute(target) || target.includes('\0'))
    throw new SandboxError(
      'invalid_argument',
      `The target of a volume (${String(target)}) must be an absolute path.`,
    )
  return { name: checkedVolume(name), target: path.posix.normalize(target), readOnly: readOnly === true }
}

function diskBytes(diskMb: number): number {
  const megabytes = Math.floor(positive(diskMb, 'resources.diskMb'))
  if (megabytes >= 8) return megabytes * 1024 * 1024
  throw new SandboxError('invalid_argument', `\`resources.diskMb\` is ${diskMb}.`, {
    hint: 'Use at least 8, so that a file system fits.',
  })
}

function positive(value: number, option: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value
  throw new SandboxError('invalid_argument', `\`${option}\` is ${String(value)}.`, {
    hint: 'Use a number above 0.',
  })
}

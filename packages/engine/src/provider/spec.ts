import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/folder'
import type { CreateSpec } from '@sandkasten/sdk/provider'
import type { IsolatorSpec } from '../isolators/isolator.ts'

/** What is used where `create` says nothing. */
export interface EngineDefaults {
  readonly image: string
  readonly memoryMb: number
  readonly vcpus: number
  readonly pids: number
  readonly tmpMb: number
  readonly network: 'none' | 'open'
}

export const engineDefaults: EngineDefaults = {
  image: 'host',
  memoryMb: 1024,
  vcpus: 1,
  pids: 512,
  tmpMb: 256,
  network: 'none',
}

/** What the engine alone has, in `providerOptions` of `create`. */
export interface EngineOptions {
  network?: 'none' | 'open'
  /** Folders and files of this machine, read-only inside. */
  mounts?: ReadonlyArray<{ source: string; target: string }>
  pids?: number
  tmpMb?: number
}

/** What the record remembers: enough to start the sandbox again. */
export type EngineExtra = Omit<IsolatorSpec, 'sandboxId' | 'folder' | 'env'>

export function planOf(spec: CreateSpec, defaults: EngineDefaults): EngineExtra {
  const options = checkedOptions(spec.providerOptions)
  const { vcpus = defaults.vcpus, memoryMb = defaults.memoryMb, diskMb } = spec.resources ?? {}
  return {
    image: imageOf(spec.image ?? defaults.image),
    limits: {
      memoryBytes: positive(memoryMb, 'resources.memoryMb') * 1024 * 1024,
      cpus: positive(vcpus, 'resources.vcpus'),
      pids: positive(options.pids ?? defaults.pids, 'providerOptions.pids'),
      tmpBytes: positive(options.tmpMb ?? defaults.tmpMb, 'providerOptions.tmpMb') * 1024 * 1024,
      shmBytes: 64 * 1024 * 1024,
      openFiles: 4096,
      ...(diskMb === undefined ? {} : { diskBytes: diskBytes(diskMb) }),
    },
    mounts: (options.mounts ?? []).map(checkedMount),
    network: options.network ?? defaults.network,
    workdir: '/workspace',
    hostname: 'sandbox',
  }
}

export function extraOf(record: SandboxRecord): EngineExtra {
  return record.extra as unknown as EngineExtra
}

function imageOf(image: string): IsolatorSpec['image'] {
  if (image === 'host') return 'host'
  if (path.isAbsolute(image)) return { rootfs: image }
  throw new SandboxError('invalid_argument', `There is no image “${image}”.`, {
    hint: 'Use `host`, or the absolute path of a folder that holds a root file system.',
  })
}

function checkedOptions(given: CreateSpec['providerOptions']): EngineOptions {
  const known = ['network', 'mounts', 'pids', 'tmpMb']
  for (const key of Object.keys(given ?? {})) {
    if (!known.includes(key))
      throw new SandboxError('invalid_argument', `The engine has no option \`${key}\`.`, {
        hint: `It takes: ${known.join(', ')}.`,
      })
  }
  const options = (given ?? {}) as EngineOptions
  if (options.network !== undefined && options.network !== 'none' && options.network !== 'open')
    throw new SandboxError('invalid_argument', `There is no network “${String(options.network)}”.`, {
      hint: 'Use none or open.',
    })
  return options
}

function checkedMount(mount: { source: string; target: string }): { source: string; target: string } {
  const { source, target } = mount ?? {}
  for (const [name, value] of Object.entries({ source, target })) {
    if (typeof value === 'string' && path.isAbsolute(value) && !value.includes('\0')) continue
    throw new SandboxError(
      'invalid_argument',
      `The mount’s ${name} (${String(value)}) must be an absolute path.`,
    )
  }
  return { source: path.normalize(source), target: path.posix.normalize(target) }
}

function diskBytes(diskMb: number): number {
  const megabytes = Math.floor(positive(diskMb, 'resources.diskMb'))
  if (megabytes >= 8) return megabytes * 1024 * 1024
  throw new SandboxError('invalid_argument', `\`resources.diskMb\` is ${diskMb}.`, {
    hint: 'Use at least 8: a file system has to fit.',
  })
}

function positive(value: number, option: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value
  throw new SandboxError('invalid_argument', `\`${option}\` is ${String(value)}.`, {
    hint: 'Use a number above 0.',
  })
}

import type { CreateSpec } from '../../core/driver.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { networkSettingsOf } from './network.ts'
import { type DaytonaRuntimes, programsOf } from './runtimes.ts'
import { labelsOf, vendorName } from './translation.ts'

/** Options that only this vendor has, under its own names. */
export interface DaytonaCreateOptions {
  /** Minutes without use until the sandbox stops. Default 15, like the vendor's. Zero (never) needs `autoPauseInterval` or `ttlMinutes`. */
  autoStopInterval?: number
  /** Minutes without use until the sandbox is paused instead, if the vendor supports it. */
  autoPauseInterval?: number
  autoArchiveInterval?: number
  autoDeleteInterval?: number
  /** Minutes until the sandbox is deleted, even if it is in use. */
  ttlMinutes?: number
  /** Deletes the sandbox as soon as it stops. */
  ephemeral?: boolean
  /** Opens every port to the public. Default false. */
  public?: boolean
  user?: string
  networkBlockAll?: boolean
  networkAllowList?: string
  domainAllowList?: string
  volumes?: readonly unknown[]
  secrets?: Readonly<Record<string, string>>
}

const known = [
  'autoStopInterval',
  'autoPauseInterval',
  'autoArchiveInterval',
  'autoDeleteInterval',
  'ttlMinutes',
  'ephemeral',
  'public',
  'user',
  'networkBlockAll',
  'networkAllowList',
  'domainAllowList',
  'volumes',
  'secrets',
] satisfies Array<keyof DaytonaCreateOptions>

/** Those that `network` sets. */
const networkOptions = ['networkBlockAll', 'networkAllowList', 'domainAllowList']

const defaultAutoStop = 15

export async function createParams(
  spec: CreateSpec,
  createId: string,
  runtimes: DaytonaRuntimes,
): Promise<Record<string, unknown>> {
  const { name, resources, envVars, providerOptions = {} } = spec
  checkKnown(providerOptions, known, '`providerOptions` of daytona')
  if (spec.image !== undefined && spec.snapshotId !== undefined)
    throw new SandboxError('invalid_argument', 'Both `image` and `snapshotId` are given.', {
      provider: 'daytona',
      hint: 'Pass only one of them.',
    })
  const { image, snapshot } = programsOf(spec, runtimes)
  if (resources && image === undefined)
    throw new SandboxError('unsupported', 'Daytona takes `resources` only together with `image`.', {
      provider: 'daytona',
      details: { option: 'resources' },
      hint: 'Pass `image` too. A snapshot keeps the resources of its sandbox.',
    })
  const { autoStopInterval, autoPauseInterval, ttlMinutes } = providerOptions as DaytonaCreateOptions
  if (autoStopInterval === 0 && !autoPauseInterval && !ttlMinutes)
    throw new SandboxError(
      'invalid_argument',
      '`autoStopInterval` is 0: the sandbox would run, and cost money, without end.',
      {
        provider: 'daytona',
        details: { option: 'autoStopInterval' },
        hint: 'Pass a number of minutes, or set `ttlMinutes`. keepAlive(sandbox) keeps a sandbox from stopping.',
      },
    )
  const both = Object.keys(providerOptions).find((option) => networkOptions.includes(option))
  if (spec.network !== undefined && both !== undefined)
    throw new SandboxError(
      'invalid_argument',
      `\`network\` and \`providerOptions.${both}\` are both given.`,
      {
        provider: 'daytona',
        hint: 'Use network alone.',
      },
    )
  return {
    // The vendor accepts only one of the two.
    ...(autoPauseInterval ? {} : { autoStopInterval: defaultAutoStop }),
    public: false,
    ...providerOptions,
    ...(spec.network === undefined ? {} : networkSettingsOf(spec.network)),
    name: name === undefined ? undefined : await vendorName(name),
    image,
    snapshot,
    resources: resources && resourcesOf(resources),
    envVars,
    labels: labelsOf({ ...spec, createId }),
  }
}

/** The vendor counts memory and disk in whole GiB, and whole processors: round up. */
function resourcesOf({ vcpus, memoryMb, diskMb }: NonNullable<CreateSpec['resources']>) {
  return {
    cpu: vcpus && Math.ceil(vcpus),
    memory: memoryMb && Math.ceil(memoryMb / 1024),
    disk: diskMb && Math.ceil(diskMb / 1024),
  }
}

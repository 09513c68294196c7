import type { CreateSpec } from '../../core/driver.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { labelsOf, vendorName } from './translation.ts'

/** What only this vendor has, under its own names. */
export interface DaytonaCreateOptions {
  /** Minutes without use after which it is stopped. Default 15, the vendor's own. Zero, which is never, only with `autoPauseInterval` or `ttlMinutes`. */
  autoStopInterval?: number
  /** Minutes without use after which it is paused instead, where the vendor can. */
  autoPauseInterval?: number
  autoArchiveInterval?: number
  autoDeleteInterval?: number
  /** Minutes after which it is deleted, whatever it does. */
  ttlMinutes?: number
  /** Deleted as soon as it stops. */
  ephemeral?: boolean
  /** Every port open to everybody. Default false. */
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

const defaultAutoStop = 15

/** A create in the vendor's words. */
export async function createParams(spec: CreateSpec, createId: string): Promise<Record<string, unknown>> {
  const { name, image, snapshotId, resources, envVars, providerOptions = {} } = spec
  checkKnown(providerOptions, known, '`providerOptions` of daytona')
  if (image !== undefined && snapshotId !== undefined)
    throw new SandboxError('invalid_argument', 'Both `image` and `snapshotId` are given.', {
      provider: 'daytona',
      hint: 'A sandbox starts from one of them.',
    })
  if (resources && image === undefined)
    throw new SandboxError('unsupported', 'Daytona takes `resources` only together with `image`.', {
      provider: 'daytona',
      details: { option: 'resources' },
      hint: 'Give an image, too; a snapshot has the resources that it was made with.',
    })
  const { autoStopInterval, autoPauseInterval, ttlMinutes } = providerOptions as DaytonaCreateOptions
  if (autoStopInterval === 0 && !autoPauseInterval && !ttlMinutes)
    throw new SandboxError('invalid_argument', '`autoStopInterval` is 0: it would run, and cost, for ever.', {
      provider: 'daytona',
      details: { option: 'autoStopInterval' },
      hint: 'Give minutes, or an end: `ttlMinutes`. keepAlive(sandbox) keeps a sandbox from stopping.',
    })
  return {
    // The vendor takes one of the two.
    ...(autoPauseInterval ? {} : { autoStopInterval: defaultAutoStop }),
    public: false,
    ...providerOptions,
    ...(name === undefined ? {} : { name: await vendorName(name) }),
    ...(image === undefined ? {} : { image }),
    ...(snapshotId === undefined ? {} : { snapshot: snapshotId }),
    ...(resources ? { resources: resourcesOf(resources) } : {}),
    envVars,
    labels: labelsOf({ ...spec, createId }),
  }
}

/** The vendor counts memory and disk in whole GiB, and processors as whole ones: at least what was asked for. */
function resourcesOf({ vcpus, memoryMb, diskMb }: NonNullable<CreateSpec['resources']>) {
  return {
    ...(vcpus === undefined ? {} : { cpu: Math.ceil(vcpus) }),
    ...(memoryMb === undefined ? {} : { memory: Math.ceil(memoryMb / 1024) }),
    ...(diskMb === undefined ? {} : { disk: Math.ceil(diskMb / 1024) }),
  }
}

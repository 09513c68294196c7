import { SandboxError } from '../../errors.ts'
import { override } from '../../shared/override.ts'
import type { CreateSandboxOpts, SandboxHandle, VolumeMount } from '../../spec/index.ts'
import type { VolumesUnderTest } from '../volumes.ts'

/** Providers whose volumes have one fault each, based on a provider with real volumes. */
export interface BrokenVolumes {
  readonly name: string
  /** The fault as a user sees it. */
  readonly what: string
  /** Ids of the behaviours that must fail. */
  readonly caughtBy: readonly [string, ...string[]]
  make(working: VolumesUnderTest): VolumesUnderTest
}

export const brokenVolumes: readonly BrokenVolumes[] = [
  {
    name: 'readers write',
    what: 'readOnly is ignored',
    caughtBy: ['volume-readers', 'volume-fork'],
    make: (working) => mounting(working, (mount) => ({ ...mount, readOnly: false })),
  },
  {
    name: 'writers read',
    what: 'every mount is read-only',
    caughtBy: ['volume-outlives', 'volume-one-writer', 'volume-race', 'volume-info', 'volume-limit'],
    make: (working) => mounting(working, (mount) => ({ ...mount, readOnly: true })),
  },
  {
    name: 'readers of a copy',
    what: 'a reader gets a volume of its own',
    caughtBy: ['volume-readers', 'volume-in-use'],
    make: (working) =>
      creating(working, async (options, create) => {
        const own = mountsOf(options).map((mount) =>
          mount.readOnly ? { ...mount, name: `${mount.name}-copy` } : mount,
        )
        for (const { name, readOnly } of own) if (readOnly) await working.volumes.create(name).catch(() => {})
        return create({ ...options, providerOptions: { volumes: own } })
      }),
  },
  {
    name: 'one path',
    what: 'volumes are mounted at /data, whatever the target',
    caughtBy: ['volume-outlives', 'volume-names'],
    make: (working) => mounting(working, (mount) => ({ ...mount, target: '/data' })),
  },
  {
    name: 'made on demand',
    what: 'mounting a missing volume creates it',
    caughtBy: ['volume-missing'],
    make: (working) =>
      creating(working, async (options, create) => {
        for (const { name } of mountsOf(options))
          await working.volumes.create(name).catch((error) => {
            if (!SandboxError.is(error, 'conflict', 'invalid_argument')) throw error
          })
        return create(options)
      }),
  },
  {
    name: 'forgotten writer',
    what: 'the writer is not reported',
    caughtBy: ['volume-info'],
    make: (working) =>
      administering(working, {
        get: async (name) => ({ ...(await working.volumes.get(name)), writer: undefined }),
      }),
  },
  {
    name: 'unlisted',
    what: 'list() misses volumes that a sandbox mounts',
    caughtBy: ['volume-info'],
    make: (working) =>
      administering(working, {
        list: async () => (await working.volumes.list()).filter(({ writer }) => writer === undefined),
      }),
  },
  {
    name: 'unlimited',
    what: 'limitMb is accepted and ignored',
    caughtBy: ['volume-limit'],
    make: (working) =>
      administering(working, {
        create: async (name, { limitMb } = {}) => ({ ...(await working.volumes.create(name)), limitMb }),
      }),
  },
  {
    name: 'shared names',
    what: 'create() returns the volume that exists',
    caughtBy: ['volume-names'],
    make: (working) =>
      administering(working, {
        create: (name, options) =>
          working.volumes.create(name, options).catch((error) => {
            if (SandboxError.is(error, 'conflict')) return working.volumes.get(name)
            throw error
          }),
      }),
  },
  {
    name: 'sloppy remove',
    what: 'remove() says true for a volume that is in use or gone',
    caughtBy: ['volume-in-use', 'volume-missing'],
    make: (working) =>
      administering(working, {
        remove: async (name) => {
          await working.volumes.remove(name).catch(() => {})
          return true
        },
      }),
  },
]

function administering(working: VolumesUnderTest, changes: Partial<VolumesUnderTest['volumes']>) {
  return override(working, { volumes: { ...working.volumes, ...changes } })
}

function mounting(working: VolumesUnderTest, change: (mount: VolumeMount) => VolumeMount) {
  return creating(working, (options, create) =>
    create({ ...options, providerOptions: { volumes: mountsOf(options).map(change) } }),
  )
}

function creating(
  working: VolumesUnderTest,
  change: (
    options: CreateSandboxOpts,
    create: (options: CreateSandboxOpts) => Promise<SandboxHandle>,
  ) => Promise<SandboxHandle>,
): VolumesUnderTest {
  return override(working, {
    create: (options = {}) => change(options, (changed) => working.create(changed)),
  })
}

function mountsOf({ providerOptions }: CreateSandboxOpts): VolumeMount[] {
  return (providerOptions?.volumes ?? []) as VolumeMount[]
}

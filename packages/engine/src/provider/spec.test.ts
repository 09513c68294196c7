import { describe, expect, it } from 'vitest'
import { engineDefaults, planOf } from './spec.ts'

const noImages = () => {
  throw new Error('no image was asked for')
}
const nothing = { labels: {}, envVars: {}, deferReady: false }

describe('planOf', () => {
  it('uses the defaults of SPECIFICATION.md', async () => {
    const MiB = 1024 * 1024
    expect(await planOf(nothing, engineDefaults, noImages)).toMatchObject({
      image: 'host',
      limits: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512, tmpBytes: 256 * MiB },
      mounts: [],
      network: 'none',
    })
  })

  it('uses the given options', async () => {
    const plan = await planOf(
      {
        ...nothing,
        image: '/rootfs',
        resources: { memoryMb: 64, vcpus: 0.5 },
        providerOptions: { pids: 9, tmpMb: 1, network: 'open' },
      },
      engineDefaults,
      noImages,
    )
    expect(plan).toMatchObject({
      image: { rootfs: '/rootfs' },
      limits: { memoryBytes: 64 * 1024 * 1024, cpus: 0.5, pids: 9, tmpBytes: 1024 * 1024 },
      network: 'open',
    })
  })
})

import { describe, expect, it } from 'vitest'
import { accessOf } from './access.ts'
import { type EngineExtra, engineDefaults, planOf } from './spec.ts'

const plan = (spec: object) =>
  planOf({ labels: {}, envVars: {}, deferReady: false, ...spec }, engineDefaults, () => {
    throw new Error('no image was asked for')
  })
const paths = (extra: EngineExtra) => accessOf(extra, true).writablePaths

describe('accessOf', () => {
  it('names the working directory, the home and the folders for temporary files', async () => {
    expect(paths(await plan({}))).toEqual(['/workspace', '/home/sandbox', '/tmp', '/var/tmp'])
    expect(paths(await plan({ providerOptions: { account: 'ada' } }))).toEqual([
      '/home/ada',
      '/tmp',
      '/var/tmp',
    ])
    expect(paths(await plan({ image: '/rootfs' }))).toEqual(['/workspace', '/tmp'])
  })

  it('names mounts and volumes only if they are writable', async () => {
    const mounts = [
      { source: '/tmp', target: '/a' },
      { source: '/tmp', target: '/b', readOnly: false },
    ]
    const volumes = [
      { name: 'one', target: '/c' },
      { name: 'two', target: '/d', readOnly: true },
    ]
    expect(paths(await plan({ providerOptions: { mounts, volumes } }))).toEqual(
      expect.arrayContaining(['/b', '/c']),
    )
    expect(paths(await plan({ providerOptions: { mounts, volumes } }))).not.toEqual(
      expect.arrayContaining(['/a']),
    )
    expect(paths(await plan({ providerOptions: { mounts, volumes } })).includes('/d')).toBe(false)
  })

  it('of root, names everything', async () => {
    expect(paths(await plan({ user: 'root' }))).toEqual(['/'])
  })
})

import { describe, expect, it } from 'vitest'
import type { CreateSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { createParams } from './create-params.ts'
import { runtimesOf } from './runtimes.ts'
import { createLabel, managedLabel, nameLabel, setupLabel } from './translation.ts'

const bare: CreateSpec = { labels: {}, envVars: {}, deferReady: false }
const params = (spec: Partial<CreateSpec> = {}) => createParams({ ...bare, ...spec }, 'create-id', runtimes)
const runtimes = runtimesOf({ runtimes: { node24: 'my-node', node22: { image: 'node:22' } } })
const refusal = async (spec: Partial<CreateSpec>) => {
  const error = await params(spec).catch((thrown: unknown) => thrown)
  expect(SandboxError.is(error), String(error)).toBe(true)
  const { code, details } = error as SandboxError
  return [code, details.option]
}

describe('the vendor’s create parameters', () => {
  it('stop an idle sandbox, keep it private, and set our labels', async () => {
    expect(await params()).toEqual({
      autoStopInterval: 15,
      public: false,
      envVars: {},
      labels: { [managedLabel]: 'true', [createLabel]: 'create-id' },
    })
    const { labels, name, envVars } = await params({
      name: 'ü',
      labels: { a: 'b' },
      envVars: { A: 'b' },
      deferReady: true,
    })
    expect([name, envVars]).toEqual([expect.stringMatching(/^sk-/), { A: 'b' }])
    expect(labels).toMatchObject({ a: 'b', [nameLabel]: 'ü', [setupLabel]: expect.any(String) })
  })

  it('contain either auto-stop or auto-pause', async () => {
    const stops = await params({ providerOptions: { autoStopInterval: 30 } })
    expect([stops.autoStopInterval, 'autoPauseInterval' in stops]).toEqual([30, false])
    const pauses = await params({ providerOptions: { autoPauseInterval: 30 } })
    expect([pauses.autoPauseInterval, 'autoStopInterval' in pauses]).toEqual([30, false])
    const off = await params({ providerOptions: { autoPauseInterval: 0 } })
    expect([off.autoPauseInterval, off.autoStopInterval]).toEqual([0, 15])
  })

  it('allow no auto-stop only with another time limit', async () => {
    const never = { autoStopInterval: 0 }
    expect(await refusal({ providerOptions: never })).toEqual(['invalid_argument', 'autoStopInterval'])
    expect(await refusal({ providerOptions: { ...never, ttlMinutes: 0 } })).toEqual([
      'invalid_argument',
      'autoStopInterval',
    ])
    for (const end of [{ autoPauseInterval: 5 }, { ttlMinutes: 60 }])
      expect(await params({ providerOptions: { ...never, ...end } })).toMatchObject({ ...never, ...end })
  })

  it('contain an image or a snapshot', async () => {
    expect(await params({ image: 'debian:12' })).toMatchObject({ image: 'debian:12' })
    expect(await params({ runtime: 'node24' })).toMatchObject({ snapshot: 'my-node' })
    expect(await params({ runtime: 'node22' })).toMatchObject({ image: 'node:22', snapshot: undefined })
    expect(await params({ snapshotId: 'sandkasten-x' })).toMatchObject({ snapshot: 'sandkasten-x' })
    expect(await refusal({ image: 'debian:12', snapshotId: 'x' })).toEqual(['invalid_argument', undefined])
  })

  it('map runtimes to public images, unless the option `runtimes` says otherwise', async () => {
    const create = (runtime: string, options = {}) =>
      createParams({ ...bare, runtime, resources: { vcpus: 1 } }, 'create-id', runtimesOf(options))
    const images = await Promise.all(['node24', 'node22', 'python3.13'].map((runtime) => create(runtime)))
    expect(images.map(({ image }) => image)).toEqual(['node:24', 'node:22', 'python:3.13'])
    await expect(create('node4')).rejects.toMatchObject({
      code: 'unsupported',
      details: { available: ['node24', 'node22', 'python3.13'] },
      hint: expect.stringContaining('snapshot or an image'),
    })
    await expect(create('node24', { runtimes: {} })).rejects.toMatchObject({ details: { available: [] } })
    for (const wrong of [{ node24: {} }, { node24: { image: '' } }, { node24: 7 }])
      expect(() => runtimesOf({ runtimes: wrong as never })).toThrow('`runtimes` must be')
  })

  it('contain resources only with an image, rounded up', async () => {
    const resources = { vcpus: 1.5, memoryMb: 1500, diskMb: 3 * 1024 }
    expect(await refusal({ resources })).toEqual(['unsupported', 'resources'])
    expect(await refusal({ resources, snapshotId: 'x' })).toEqual(['unsupported', 'resources'])
    const { resources: asked } = await params({ image: 'debian:12', resources })
    expect(asked).toEqual({ cpu: 2, memory: 2, disk: 3 })
    const { resources: some } = await params({ image: 'debian:12', resources: { memoryMb: 512 } })
    expect(some).toEqual({ memory: 1 })
  })

  it('refuse options that the vendor does not support', async () => {
    expect((await refusal({ providerOptions: { autoStop: 5 } }))[0]).toBe('invalid_argument')
  })
})

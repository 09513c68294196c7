import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** A session of a snapshot inherits the settings of its origin. The response notes the settings that it cannot inherit. */
const provider = new MemoryProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
const limits = { cpu: 3, memory_mb: 900, pids: 77, disk_mb: 1234 }
let daemon: TestDaemon
let snapshot_id: string
beforeAll(async () => {
  daemon = await start({ allowed_networks: ['none', 'open'], allowed_images: ['host', 'python'] })
  const id = await daemon.session({
    limits,
    network_mode: 'open',
    image: 'python',
    env: { TOKEN: 'a', MODE: 'b' },
  })
  snapshot_id = (await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})).body.id
})
afterAll(() => daemon?.stop())

const start = (settings: Record<string, unknown>) => startTestDaemon(settings, { provider: provider })

describe('a session of a snapshot', () => {
  it('has the limits, the network and the image of its origin', async () => {
    const { status, body } = await daemon.call('POST', '/v1/sessions', { snapshot_id, env: { TOKEN: 'c' } })
    expect(status).toBe(201)
    expect(body).toMatchObject({ limits, network_mode: 'open', image: 'python' })
    expect(body.notes).toEqual(['env: values are not part of a snapshot; pass MODE again.'])
    expect((await daemon.call('GET', `/v1/sessions/${body.id}`)).body.notes).toBeUndefined()
  })

  it('takes the values of the request instead', async () => {
    const env = { TOKEN: 'c', MODE: 'd' }
    const { body } = await daemon.call('POST', '/v1/sessions', {
      snapshot_id,
      env,
      limits: { cpu: 1 },
      network_mode: 'none',
    })
    expect(body).toMatchObject({ limits: { ...limits, cpu: 1 }, network_mode: 'none' })
    expect(body.notes).toBeUndefined()
  })

  it('notes settings that are not allowed or unknown', async () => {
    const { context } = daemon
    const changed = { allowed_networks: ['none'], max: { ...context.config.max, cpu_limit: 2 } }
    const before = { allowed_networks: context.config.allowed_networks, max: context.config.max }
    Object.assign(context.config, changed)
    try {
      const { status, body } = await daemon.call('POST', '/v1/sessions', { snapshot_id, image: 'host' })
      expect(status).toBe(201)
      expect(body).toMatchObject({ limits: { ...limits, cpu: 2 }, network_mode: 'none', image: 'python' })
      expect(body.notes).toEqual([
        'image: a snapshot brings its own, python; host was not used.',
        'env: values are not part of a snapshot; pass MODE, TOKEN again.',
        'limits.cpu: 3 exceeds the limit; 2 is used.',
        'network_mode: open is not allowed here; none is used.',
      ])
    } finally {
      Object.assign(context.config, before)
    }
  })
})

describe('a fork', () => {
  it('has limits, network and image of its origin', async () => {
    const id = await daemon.session({ limits, network_mode: 'open', image: 'python' })
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/fork`, { count: 1 })
    const [copy] = body.sessions ?? body.forks ?? body
    expect(copy.session ?? copy).toMatchObject({ limits, network_mode: 'open', image: 'python' })
  })
})

import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { start } from '../helper.ts'
import { type Place, temporaryPlace } from './place.ts'

/** Longer than due work may take after a command has ended. */
const soon = { timeout: 20_000 }

describe('due work', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
    await place.ok(['create', 'used', '--provider', 'local'])
  })
  afterAll(() => place?.close())

  const statusOf = async (name: string) => (await place.json<{ status: string }>(['show', name])).status

  it.each([
    ['list', () => place.ok(['list'])],
    ['exec', () => place.ok(['exec', 'used', '--', 'true'])],
    ['shell', () => place.ok(['shell', 'used'], { input: 'true\n' })],
  ])('is done beside %s, which succeeds', async (name, command) => {
    const idle = `idle-${name}`
    await place.ok(['create', idle, '--provider', 'local', '--idle-stop', '1s'])
    expect(await statusOf(idle)).toBe('running')
    await expect
      .poll(async () => {
        await command()
        return statusOf(idle)
      }, soon)
      .toBe('stopped')
    expect(await statusOf('used')).toBe('running')
  })

  it('is done while a long command runs, and not to its sandbox', async () => {
    await place.ok(['create', 'long', '--provider', 'local', '--idle-stop', '1s'])
    const child = start(['sandbox', 'exec', 'long', '--', 'cat'], place.env, {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    const closed = once(child, 'close')
    await expect.poll(async () => (await place.json<{ uses: [] }>(['show', 'long'])).uses).toHaveLength(1)
    await place.ok(['create', 'idle-long', '--provider', 'local', '--idle-stop', '1s'])
    await expect.poll(() => statusOf('idle-long'), { timeout: 30_000 }).toBe('stopped')
    expect(await statusOf('long')).toBe('running')
    child.stdin!.end()
    expect(await closed).toEqual([0, null])
  })

  it('is announced to need a worker, unless one runs', async () => {
    const create = (name: string, ...options: string[]) =>
      place.run(['create', name, '--provider', 'local', '--json', ...options])
    const warned = /no worker[\s\S]*sandkasten sandbox work/
    expect((await create('plain')).stderr).not.toMatch(warned)
    const alone = await create('alone', '--idle-stop', '1h')
    expect(alone).toMatchObject({ code: 0, stderr: expect.stringMatching(warned) })
    expect(JSON.parse(alone.stdout)).toMatchObject({ name: 'alone' })
    const worker = start(['sandbox', 'work'], place.env, { stdio: 'ignore' })
    const another = async () => {
      const { length } = await place.json<unknown[]>(['list'])
      return (await create(`another-${length}`, '--idle-stop', '1h')).stderr
    }
    await expect.poll(another, soon).not.toMatch(warned)
    worker.kill('SIGTERM')
    await once(worker, 'close')
    expect((await create('late', '--idle-stop', '1h')).stderr).toMatch(warned)
  })
})

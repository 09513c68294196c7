import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { leftoversOf } from './test-helper.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-stays-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()
const place = path.join(root, 'sandboxes')
const options = { isolator: 'oci', root, oci: { ids: { folder: path.join(root, 'ids') } } } as const
let provider: EngineProvider

const drafts = () => readdirSync(place).filter((name) => name.startsWith('.'))

/** The id of the one that is prepared. */
async function prepared(): Promise<string> {
  for (;;) {
    const [draft] = drafts()
    if (draft && existsSync(path.join(place, draft, 'disk', 'disk', 'work'))) return draft.slice(1, 17)
    await sleep(5)
  }
}

describe('a process that stays', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
    provider = new EngineProvider({ ...options, stays: true })
  })
  afterEach(async () => {
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
    await provider.close()
    expect(readdirSync(place)).toEqual([])
    expect(readdirSync(options.oci.ids.folder)).toEqual([])
  })

  it('makes the folder of its next sandbox beforehand, which is like any other', async () => {
    const first = await provider.create()
    const id = await prepared()
    expect((await provider.list()).map(({ sandboxId }) => sandboxId)).toEqual([first.sandboxId])
    await expect(provider.get(id)).rejects.toMatchObject({ code: 'not_found' })
    const next = await provider.create()
    expect(next.sandboxId).toBe(id)
    const { mode } = statSync(path.join(place, id, 'disk', 'disk', 'upper'))
    expect(mode & 0o777).toBe(0o755)
    await next.files.writeFile('note', 'kept')
    const snapshot = await next.snapshot()
    await next.stop()
    const again = await provider.get(id, { resume: true })
    expect(await again.files.readFile('note', { encoding: 'utf8' })).toBe('kept')
    await provider.destroy(id)
    expect(leftoversOf(id)).toEqual([])
    await provider.deleteSnapshot(snapshot.snapshotId)
  })

  it('does so for one with a limited disk too, whose limit holds', async () => {
    await provider.create()
    const id = await prepared()
    const limited = await provider.create({ resources: { diskMb: 64 } })
    expect(limited.sandboxId).toBe(id)
    const { exitCode } = await limited.runCommand({ cmd: 'sh', args: ['-c', 'head -c 100M /dev/zero > big'] })
    expect(exitCode).not.toBe(0)
    await limited.stop()
    const again = await provider.get(id, { resume: true })
    expect((await again.files.stat('big')).size).toBeLessThan(64 * 2 ** 20)
  })

  it('hands each out once, however many are made at once', async () => {
    await provider.create()
    await prepared()
    const made = await Promise.all(Array.from({ length: 5 }, () => provider.create()))
    expect(new Set(made.map(({ sandboxId }) => sandboxId)).size).toBe(5)
  })

  it('makes another when somebody has taken it away', async () => {
    await provider.create()
    const id = await prepared()
    rmSync(path.join(place, drafts()[0]!), { recursive: true })
    const { sandboxId } = await provider.create()
    expect(sandboxId).not.toBe(id)
  })

  it('keeps it from others who sweep, and removes it when it ends, however soon', async () => {
    await provider.create()
    const id = await prepared()
    await using other = new EngineProvider(options)
    await other.sweep()
    expect(await prepared()).toBe(id)
    for (const waitMs of [0, 20, 25, 30, 60]) {
      await provider.close()
      expect(drafts()).toEqual([])
      await provider.destroy((await provider.create()).sandboxId)
      await sleep(waitMs)
    }
  })

  it('says nothing when it cannot be made: the next create does', async () => {
    const first = await provider.create()
    await provider.destroy(first.sandboxId)
    // Root may write anywhere; but not into what is no folder.
    rmSync(place, { recursive: true })
    writeFileSync(place, '')
    await sleep(60)
    await expect(provider.create()).rejects.toMatchObject({ name: 'SandboxError' })
    rmSync(place)
    mkdirSync(place)
    await provider.create()
  })
})

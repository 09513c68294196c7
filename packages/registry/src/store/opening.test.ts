import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Database } from '@sandkasten/database'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Store as DaemonStore } from '../../../daemon/src/store/index.ts'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { defaultLocation, openStore, registryFolder, type Store } from './index.ts'
import { startChild } from './testing/children.ts'
import { home, sandboxRow } from './testing/rows.ts'

describeOnEachDatabase('opening a registry', (place) => {
  it('in several processes at once makes one registry, with one id', async () => {
    const location = await place()
    const children = Array.from({ length: 4 }, () => startChild(location, 'open', {}))
    const ids = await Promise.all(children.map(({ result }) => result))
    expect(new Set(ids).size).toBe(1)
    const store = await openStore(location)
    expect(await store.facts.registryId()).toBe(ids[0])
    expect(await store.facts.once('registry_id', 'another')).toBe(ids[0])
    expect(await store.facts.get('key_id')).toBeUndefined()
    await store.close()
    const database = await Database.connect(location)
    const { rows } = await sql<{ version: number }>`select version from registry_version`.execute(database.db)
    expect(new Set(rows.map(({ version }) => version)).size).toBe(rows.length)
    expect(rows.length).toBeGreaterThan(0)
    await database.close()
  })

  it('of a newer version is refused', async () => {
    const location = await place()
    await (await openStore(location)).close()
    const database = await Database.connect<{ registry_version: { version: number; name: string } }>(location)
    await database.db.insertInto('registry_version').values({ version: 99, name: 'later' }).execute()
    await database.close()
    await expect(openStore(location)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('version 99; this registry'),
    })
  })

  it('in the daemon’s database leaves the daemon’s tables alone', async () => {
    const location = await place()
    const daemon = await DaemonStore.open(
      'url' in location ? { db_url: location.url, db_path: '' } : { db_path: location.file },
    )
    const store = await openStore(location)
    await store.sandboxes.insert(sandboxRow())
    await daemon.close()
    await store.close()
    const again = await openStore(location)
    expect(await again.sandboxes.names(home)).toEqual(['demo'])
    await again.close()
  })
})

describe('the registry’s file', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sk-registry-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const mode = async (file: string) => (await stat(file)).mode & 0o777

  it('is private by default, in a folder that is private', async () => {
    const env = { SANDKASTEN_HOME: path.join(folder, 'home') }
    await mkdir(registryFolder(env), { recursive: true, mode: 0o755 })
    const location = await defaultLocation(env)
    expect(location).toEqual({ file: path.join(folder, 'home/registry/registry.db') })
    const store = await openStore(location)
    await store.sandboxes.insert(sandboxRow())
    const file = path.join(folder, 'home/registry/registry.db')
    expect(await mode(path.dirname(file))).toBe(0o700)
    for (const name of [file, `${file}-wal`, `${file}-shm`]) expect(await mode(name), name).toBe(0o600)
    const other = new DatabaseSync(file)
    expect(other.prepare('pragma journal_mode').get()).toEqual({ journal_mode: 'wal' })
    other.close()
    await store.close()
  })

  it('is replaced by Postgres with one variable', async () => {
    expect(await defaultLocation({ SANDKASTEN_REGISTRY_URL: 'postgres://x' })).toEqual({
      url: 'postgres://x',
    })
  })

  it('in a folder that is no folder is an error that names it', async () => {
    await writeFile(path.join(folder, 'home'), '')
    const failed = defaultLocation({ SANDKASTEN_HOME: path.join(folder, 'home') })
    await expect(failed).rejects.toMatchObject({
      code: 'permission_denied',
      message: expect.stringContaining(path.join(folder, 'home/registry')),
    })
  })

  it('that another program locks is unavailable, then works again', async () => {
    const file = path.join(folder, 'a.db')
    const store = await openStore({ file })
    const other = new DatabaseSync(file)
    other.exec('begin immediate')
    await expect(store.sandboxes.insert(sandboxRow())).rejects.toMatchObject({
      code: 'unavailable',
      retryable: true,
    })
    const reader = await openStore({ file })
    expect(await reader.sandboxes.names(home)).toEqual([])
    await reader.close()
    other.exec('rollback')
    other.close()
    await store.sandboxes.insert(sandboxRow())
    await store.close()
  })

  it('that another program locks while it is new is unavailable', async () => {
    const file = path.join(folder, 'a.db')
    const other = new DatabaseSync(file)
    other.exec('pragma journal_mode = wal; begin immediate; create table other (id text)')
    await expect(openStore({ file })).rejects.toMatchObject({ code: 'unavailable' })
    other.exec('rollback')
    other.close()
    await (await openStore({ file })).close()
  })

  it('that is no database is an error', async () => {
    const file = path.join(folder, 'a.db')
    await writeFile(file, 'not a database '.repeat(100))
    await expect(openStore({ file })).rejects.toMatchObject({
      name: 'SandboxError',
      message: `The database’s file ${file} is damaged, or is not a database.`,
    })
    await chmod(file, 0o600)
  })

  const mayMount = process.platform === 'linux' && process.getuid?.() === 0
  describe.skipIf(!mayMount)(`on a full disk${mayMount ? '' : ' (skipped: mounting needs root)'}`, () => {
    it('refuses rows, changes nothing, and works again when there is room', async () => {
      const disk = path.join(folder, 'disk')
      await mkdir(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'sk-registry', disk])
      try {
        const store = await openStore({ file: path.join(disk, 'a.db') })
        await store.sandboxes.insert(sandboxRow({ name: 'before' }))
        const filler = path.join(disk, 'filler')
        await writeFile(filler, Buffer.alloc(2_000_000)).catch(() => {})
        const settings = JSON.stringify({ image: 'x'.repeat(50_000) })
        const results = []
        for (let at = 0; at < 5; at += 1)
          results.push(
            await store.sandboxes.insert(sandboxRow({ name: `n${at}`, settings })).then(
              () => undefined,
              (error: { code: string }) => error.code,
            ),
          )
        expect(results).toContain('disk_full')
        const stored = results.flatMap((code, at) => (code === undefined ? [`n${at}`] : []))
        expect(await store.sandboxes.names(home)).toEqual(['before', ...stored])
        await rm(filler)
        await store.sandboxes.insert(sandboxRow({ name: 'after', settings }))
        await store.close()
      } finally {
        execFileSync('umount', ['-l', disk])
      }
    })

    it('is opened and changed with the space that it reserved', async () => {
      const disk = path.join(folder, 'disk')
      await mkdir(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'sk-registry', disk])
      const fill = (name: string) => writeFile(path.join(disk, name), Buffer.alloc(9_000_000)).catch(() => {})
      const location = { file: path.join(disk, 'a.db') }
      try {
        const before = await openStore(location)
        await before.sandboxes.insert(sandboxRow({ name: 'before' }))
        await before.close()
        await fill('filler')
        const store = await openStore(location)
        await store.sandboxes.insert(sandboxRow({ name: 'after' }))
        expect(await store.sandboxes.names(home)).toEqual(['after', 'before'])
        await store.close()
        // Without the reserve, even a reader has no room.
        await fill('filler of the reserve')
        await expect(openStore(location)).rejects.toMatchObject({ code: 'disk_full' })
        await rm(path.join(disk, 'filler'))
        const again = await openStore(location)
        expect(await again.sandboxes.names(home)).toEqual(['after', 'before'])
        await again.close()
      } finally {
        execFileSync('umount', ['-l', disk])
      }
    })
  })
})

const noPostgres = await postgresMissing()
describe.skipIf(noPostgres)(`Postgres that is away${noPostgres ? ` (skipped: ${noPostgres})` : ''}`, () => {
  let postgres: TestPostgres
  let store: Store
  beforeAll(async () => {
    postgres = await startPostgres()
    store = await openStore({ url: postgres.url })
  })
  afterAll(async () => {
    await store?.close()
    await postgres?.stop()
  })

  it('is unavailable, and loses nothing that was stored', async () => {
    await store.sandboxes.insert(sandboxRow({ name: 'before' }))
    await postgres.kill()
    await expect(store.sandboxes.insert(sandboxRow({ name: 'lost' }))).rejects.toMatchObject({
      code: 'unavailable',
      retryable: true,
    })
    await expect(openStore({ url: postgres.url })).rejects.toMatchObject({ code: 'unavailable' })
    await postgres.start()
    await store.sandboxes.insert(sandboxRow({ name: 'after' }))
    expect(await store.sandboxes.names(home)).toEqual(['after', 'before'])
  })
})

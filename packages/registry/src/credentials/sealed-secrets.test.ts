import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { encrypt } from '../../../database/src/sealed/cipher.ts'
import { newKey, textOf } from '../../../database/src/sealed/key.ts'
import { readKeyFile } from '../../../database/src/sealed/key-file.ts'
import { keySource } from '../../../database/src/sealed/key-source.ts'
import { SealedSecrets } from '../../../database/src/sealed/sealed-secrets.ts'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import type { Place } from '../context.ts'
import { type DatabaseLocation, openStore, type Store } from '../store/index.ts'
import { sandboxRow } from '../store/testing/rows.ts'

describeOnEachDatabase('encrypted values', (newDatabase, kind) => {
  let location: DatabaseLocation
  let folder: string
  let file: string
  const stores: Store[] = []

  beforeEach(async () => {
    location = await newDatabase()
    folder = await mkdtemp(path.join(tmpdir(), 'sk-secrets-'))
    file = path.join(folder, 'key')
  })
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()))
    rmSync(folder, { recursive: true, force: true })
  })

  /** As another process: its own connection and its own memory of keys. */
  async function process(env: Record<string, string> = {}) {
    const store = await openStore(location)
    stores.push(store)
    const secrets = await SealedSecrets.open(store.sealed, keySource({ file, env }))
    const addSandbox = async (text: string) => {
      const row = sandboxRow({ name: randomUUID() })
      await secrets.storing(async () =>
        store.sandboxes.insert({
          ...row,
          env: await secrets.seal(text, envOf(row.id)),
          opencode_password: await secrets.seal(`password of ${text}`, passwordOf(row.id)),
        }),
      )
      return row.id
    }
    const read = async (id: string) => {
      const row = (await store.sandboxes.byId(id))!
      return [
        await secrets.open(row.env!, envOf(id)),
        await secrets.open(row.opencode_password!, passwordOf(id)),
      ]
    }
    return { store, secrets, addSandbox, read }
  }
  const envOf = (row: string): Place => ({ table: 'sandboxes', column: 'env', row })
  const passwordOf = (row: string): Place => ({ table: 'sandboxes', column: 'opencode_password', row })
  const keysInFile = () => readKeyFile(file).map(({ id }) => id)

  it('need a key only once there is one', async () => {
    await process()
    expect(readdirSync(folder)).toEqual([])
    const { addSandbox, read, store } = await process()
    const id = await addSandbox('text')
    expect(await read(id)).toEqual(['text', 'password of text'])
    expect(keysInFile()).toEqual([await store.sealed.keyId()])
  })

  it('get one key, also if many processes store the first one at once', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => process()))
    const ids = await Promise.all(all.map(({ addSandbox }, at) => addSandbox(`text ${at}`)))
    expect(keysInFile()).toHaveLength(1)
    const { read } = await process()
    expect(await Promise.all(ids.map(read))).toEqual(
      ids.map((_, at) => [`text ${at}`, `password of text ${at}`]),
    )
  })

  it('get one of two keys, if processes with different keys store the first one at once', async () => {
    const keys = [textOf(newKey()), textOf(newKey())]
    const all = await Promise.all(keys.map((key) => process({ SANDKASTEN_SECRET_KEY: key })))
    const added = await Promise.allSettled(all.map(({ addSandbox }) => addSandbox('text')))
    const stored = added.findIndex(({ status }) => status === 'fulfilled')
    expect(added.filter(({ status }) => status === 'rejected')).toEqual([
      { status: 'rejected', reason: expect.objectContaining({ code: 'unauthenticated' }) as Error },
    ])
    const { read } = await process({ SANDKASTEN_SECRET_KEY: keys[stored]! })
    const { value } = added[stored] as PromiseFulfilledResult<string>
    expect(await read(value)).toEqual(['text', 'password of text'])
  })

  it('cannot be opened without the key file, and no new key is made', async () => {
    const { addSandbox } = await process()
    await addSandbox('text')
    rmSync(file)
    await expect(process()).rejects.toMatchObject({
      code: 'unauthenticated',
      message: expect.stringContaining('The key of this database is missing') as string,
    })
    expect(readdirSync(folder)).toEqual([])
  })

  it('cannot be opened with another key', async () => {
    const { addSandbox } = await process()
    await addSandbox('text')
    const refused = {
      code: 'unauthenticated',
      message: expect.stringContaining('The key does not fit this database') as string,
    }
    await expect(process({ SANDKASTEN_SECRET_KEY: textOf(newKey()) })).rejects.toMatchObject(refused)
    writeFileSync(file, JSON.stringify({ keys: [textOf(newKey())] }))
    await expect(process()).rejects.toMatchObject(refused)
  })

  it('are readable by every process after a rotation', async () => {
    const [one, other] = [await process(), await process()]
    const ids: string[] = []
    for (let at = 0; at < 250; at += 1) ids.push(await one.addSandbox(`text ${at}`))
    const before = await one.store.sandboxes.byId(ids[0]!)
    expect(await other.read(ids[0]!)).toEqual(['text 0', 'password of text 0'])
    const [oldKey] = keysInFile()
    const { keyId, values } = await one.secrets.rotate()
    expect(values).toBe(500)
    expect(keyId).not.toBe(oldKey)
    expect(keysInFile()).toEqual([keyId])
    const third = await process()
    for (const { read } of [one, other, third])
      for (const at of [0, 99, 100, 249])
        expect(await read(ids[at]!)).toEqual([`text ${at}`, `password of text ${at}`])
    // Read before the rotation, by a process that never knew the old key.
    expect(await third.secrets.open(before!.env!, envOf(ids[0]!))).toBe('text 0')
  })

  it('are never stored under a key that was rotated', async () => {
    const [one, other] = [await process(), await process()]
    await one.addSandbox('first')
    const row = sandboxRow({ name: randomUUID() })
    const stale = await other.secrets.seal('late', envOf(row.id))
    await one.secrets.rotate()
    await expect(other.store.sandboxes.insert({ ...row, env: stale })).rejects.toMatchObject({
      code: 'conflict',
      message: 'The key of the registry was rotated meanwhile.',
    })
    const id = await one.addSandbox('second')
    const { lease_token } = (await other.store.sandboxes.take(id, 'holder', 'check'))!
    await expect(
      other.store.sandboxes.update(id, lease_token, { opencode_password: stale }),
    ).rejects.toMatchObject({
      code: 'conflict',
    })
    await expect(
      other.store.providers.upsert({
        id: 'id',
        app_id: '',
        provider: 'memory',
        label: null,
        api_key: stale,
        config_json: '{}',
        is_default: 0,
        created_at: 1,
        updated_at: 1,
        checked_at: null,
      }),
    ).rejects.toMatchObject({ code: 'conflict' })
    await expect(
      other.store.sandboxes.insert(sandboxRow({ name: 'plain', env: 'plain text' })),
    ).rejects.toMatchObject({
      code: 'conflict',
    })
    const late = await other.addSandbox('late')
    expect(await one.read(late)).toEqual(['late', 'password of late'])
  })

  it('stored during rotations of several processes are all readable', async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => process()))
    const ids: string[] = [await all[0]!.addSandbox('text 0')]
    await Promise.all([
      all[0]!.secrets.rotate(),
      all[1]!.secrets.rotate(),
      ...Array.from({ length: 20 }, async (_, at) => {
        ids[at + 1] = await all[at % 3]!.addSandbox(`text ${at + 1}`)
      }),
      all[2]!.secrets.rotate(),
    ])
    const { read, store } = await process()
    for (const [at, id] of ids.entries())
      expect(await read(id)).toEqual([`text ${at}`, `password of text ${at}`])
    expect(keysInFile()).toEqual([await store.sealed.keyId()])
  })

  it('stay as they are if one of them cannot be read by a rotation', async () => {
    const { addSandbox, store, secrets, read } = await process()
    const ids = [await addSandbox('text 0'), await addSandbox('text 1')]
    const [keyId] = keysInFile()
    const { lease_token } = (await store.sandboxes.take(ids[1]!, 'holder', 'check'))!
    const moved = (await store.sandboxes.byId(ids[0]!))!.env
    await store.sandboxes.update(ids[1]!, lease_token, { env: moved })
    await expect(secrets.rotate()).rejects.toMatchObject({
      code: 'unauthenticated',
      details: { table: 'sandboxes', column: 'env', row: ids[1] },
    })
    expect(keysInFile()).toEqual([keyId])
    expect(await read(ids[0]!)).toEqual(['text 0', 'password of text 0'])
  })

  it('are found again after a rotation that ended before or after its transaction', async () => {
    const first = await process()
    const id = await first.addSandbox('text')
    const [old, next] = [readKeyFile(file)[0]!, newKey()]
    const put = (...keys: Array<typeof old>) =>
      writeFileSync(file, JSON.stringify({ keys: keys.map(textOf) }))
    put(old, next)
    const before = await process()
    expect(await before.read(id)).toEqual(['text', 'password of text'])
    expect(keysInFile()).toEqual([old.id])
    put(old, next)
    await first.store.sealed.exclusively(async (values) => {
      await values.setKeyId(next.id)
      await values.replaceAll((_, place) => encrypt(place.column, next, place))
    })
    const after = await process()
    expect(await after.read(id)).toEqual(['env', 'opencode_password'])
    expect(keysInFile()).toEqual([next.id])
  })

  it('can be rotated to another variable, and only with both', async () => {
    const [old, next] = [textOf(newKey()), textOf(newKey())]
    const first = await process({ SANDKASTEN_SECRET_KEY: old })
    const id = await first.addSandbox('text')
    await expect(first.secrets.rotate()).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: expect.stringContaining('SANDKASTEN_SECRET_KEY_OLD') as string,
    })
    const both = await process({ SANDKASTEN_SECRET_KEY: next, SANDKASTEN_SECRET_KEY_OLD: old })
    // Until the rotation, everyone keeps using the old key.
    const other = await both.addSandbox('other')
    expect(await first.read(other)).toEqual(['other', 'password of other'])
    expect(await both.secrets.rotate()).toMatchObject({ values: 4 })
    expect(await both.secrets.rotate()).toMatchObject({ values: 0 })
    await expect(first.addSandbox('late')).rejects.toMatchObject({ code: 'unauthenticated' })
    const after = await process({ SANDKASTEN_SECRET_KEY: next })
    expect(await after.read(id)).toEqual(['text', 'password of text'])
    expect(await after.read(other)).toEqual(['other', 'password of other'])
    expect(readdirSync(folder)).toEqual([])
  })

  it('leave no earlier version in the files after a rotation or a removal', async ({ skip }) => {
    if (kind !== 'sqlite') skip('Postgres erases old versions by itself, when it vacuums')
    const { file: database } = location as { file: string }
    const one = await process()
    const other = await process()
    const ids: string[] = []
    for (let at = 0; at < 300; at += 1) ids.push(await one.addSandbox(`${at}`.repeat(1 + (at % 50) * 20)))
    const sealedOf = async () =>
      Promise.all(ids.map(async (id) => (await other.store.sandboxes.byId(id))!.env!))
    const before = await sealedOf()
    const found = (texts: string[]) => {
      const bytes = ['', '-wal', '-shm'].map((end) => readFileSync(`${database}${end}`, 'latin1')).join('')
      return texts.filter((text) => bytes.includes(text.slice(21, 60))).length
    }
    expect(found(before)).toBe(300)
    // A connection that does not overwrite what it deletes.
    const careless = await openStore(location)
    stores.push(careless)
    for (const id of ids.splice(0, 100)) {
      const { lease_token } = (await careless.sandboxes.take(id, 'holder', 'check'))!
      await careless.sandboxes.update(id, lease_token, { env: null, opencode_password: null })
    }
    await one.secrets.replacing('log', async () => {})
    expect(found(before)).toBeGreaterThan(200)
    await one.secrets.rotate()
    expect(found(before)).toBe(0)
    const after = await sealedOf()
    expect(found(after)).toBe(200)
    for (const id of ids) {
      const { lease_token } = (await one.store.sandboxes.take(id, 'holder', 'check'))!
      await one.store.sandboxes.update(id, lease_token, { env: null })
    }
    await one.secrets.replacing('log', async () => {})
    expect(found(after)).toBe(0)
  })
})

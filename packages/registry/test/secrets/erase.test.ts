import fs from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openCredentials } from '../../src/credentials/index.ts'
import { openStore, type Store } from '../../src/store/index.ts'

const url = 'http://127.0.0.1:9'
const { run, all } = StatementSync.prototype
let folder: string
let file: string
let stores: Store[]

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(tmpdir(), 'sk-erase-'))
  file = path.join(folder, 'registry.db')
  stores = []
})
afterEach(async () => {
  Object.assign(StatementSync.prototype, { run, all })
  await Promise.all(stores.map((store) => store.close()))
  fs.rmSync(folder, { recursive: true, force: true })
})

/** As another process. */
async function open() {
  const store = await openStore({ file })
  stores.push(store)
  return { store, ...(await openCredentials({ store, keyFile: `${file}.key`, env: {} })) }
}

/** Runs `before` before each statement that erases old versions from the file. */
function beforeErase(before: () => void): void {
  for (const [name, original] of Object.entries({ run, all }))
    Object.assign(StatementSync.prototype, {
      [name](this: StatementSync, ...args: unknown[]): unknown {
        if (/^(vacuum|pragma wal_checkpoint)/.test(this.sourceSQL)) before()
        return Reflect.apply(original, this, args)
      },
    })
}

function fails(errcode: number): () => void {
  return () => {
    throw Object.assign(new Error(`SQLite failed with ${errcode}.`), { code: 'ERR_SQLITE_ERROR', errcode })
  }
}

/** The value that is stored now. */
const sealedIn = async ({ store }: { store: Store }) => (await store.providers.list())[0]!.api_key
const isInFiles = (sealed: string) =>
  ['', '-wal']
    .map((end) => `${file}${end}`)
    .some((name) => fs.existsSync(name) && fs.readFileSync(name, 'latin1').includes(sealed.slice(21, 60)))

describe('a change of credentials whose old version cannot be erased', () => {
  it.each([
    ['another process is in the way', 517],
    ['the disk is full', 13],
    ['a temporary file cannot be written', 778],
  ])('is made when %s (%i), and the next process erases it', async (_, errcode) => {
    const one = await open()
    await one.credentials.setup('daemon', { url, apiKey: 'sk-first-key' }, { check: false })
    const first = await sealedIn(one)
    beforeErase(fails(errcode))
    await one.credentials.setup('daemon', { url, apiKey: 'sk-second-key' }, { check: false })
    const second = await sealedIn(one)
    expect(second).not.toBe(first)
    const { keyId } = await one.credentials.rotateKey()
    expect(await one.store.sealed.keyId()).toBe(keyId)
    const third = await sealedIn(one)
    expect(await one.credentials.remove('daemon')).toBe(true)
    expect(await one.store.providers.list()).toEqual([])
    // Positive control: nothing was erased.
    expect([first, second, third].filter(isInFiles)).not.toEqual([])
    Object.assign(StatementSync.prototype, { run, all })
    await open()
    expect([first, second, third].filter(isInFiles)).toEqual([])
  })

  it('is made while another process keeps a real lock', { timeout: 30_000 }, async () => {
    const one = await open()
    await one.credentials.setup('daemon', { url, apiKey: 'sk-first-key' }, { check: false })
    const first = await sealedIn(one)
    const other = new DatabaseSync(file)
    beforeErase(() => {
      if (!other.isTransaction) other.exec('begin immediate')
    })
    const { keyId } = await one.credentials.rotateKey()
    Object.assign(StatementSync.prototype, { run, all })
    expect(await one.store.sealed.keyId()).toBe(keyId)
    other.exec('rollback')
    other.close()
    await open()
    expect(isInFiles(first)).toBe(false)
  })
})

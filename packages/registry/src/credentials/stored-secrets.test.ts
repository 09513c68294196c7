import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Network, SandboxError, secret } from '@sandkasten/sdk'
import { defineProviderKind, type ProviderContext } from '@sandkasten/sdk/auto'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { Database } from '../../../database/src/index.ts'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { wrap } from '../lifecycle/testing/registry.ts'
import { openRegistry } from '../open-registry.ts'
import type { DatabaseLocation } from '../store/index.ts'

const first = 'ghp-first-value-of-it-77aa'
const later = 'ghp-later-value-of-it-88bb'
const policy = (name = 'github', ...more: string[]): Network => ({
  allow: ['api.example', ...more],
  transform: [{ match: { host: 'api.example' }, headers: { authorization: secret(name) } }],
})

/** A registry with a provider that asks for the values when a network is set, as the vendors' do. */
async function begin(location: DatabaseLocation, env: Record<string, string> = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'sk-stored-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const memory = new MemoryProvider()
  const wrapped = wrap(memory)
  /** What the vendor was given, in this order. */
  const given: Array<string | undefined> = []
  let context: ProviderContext = {}
  const ask = async (real: () => Promise<unknown>) => {
    given.push(await context.secrets!('github'))
    return real()
  }
  wrapped.instead.create = ask
  wrapped.instead.setNetwork = ask
  const kind = defineProviderKind({
    provider: 'memory',
    title: 'memory',
    fields: {},
    make(_, got) {
      context = got
      return wrapped.provider
    },
  })
  const open = () =>
    openRegistry({
      database: location,
      dataDir: folder,
      kinds: [kind],
      defaultProvider: 'memory',
      env: { HOME: folder, ...env },
    })
  const registry = await open()
  onTestFinished(async () => {
    for (const { id } of await memory.list()) await memory.destroy(id)
    await registry.close()
  })
  return { registry, given, memory, folder, open, instead: wrapped.instead, asked: () => context }
}

describeOnEachDatabase('secrets of the registry', (place, kind) => {
  it('are listed by name and version, replaced in place, and deleted', async () => {
    const { registry } = await begin(await place())
    const { secrets } = registry
    expect(await secrets.list()).toEqual([])
    const one = await secrets.put('github', first)
    expect(one).toMatchObject({ name: 'github', version: 1, sandboxes: [], failed: [] })
    expect(await secrets.put('github', later)).toMatchObject({ version: 2, createdAt: one.createdAt })
    expect(await secrets.list()).toMatchObject([{ name: 'github', version: 2 }])
    expect(JSON.stringify(await secrets.list())).not.toContain('ghp-')
    expect(await secrets.delete('github')).toMatchObject({ existed: true })
    expect(await secrets.delete('github')).toMatchObject({ existed: false })
  })

  it('reach the provider for sandboxes of their scope, and no other', async () => {
    const { registry, given, asked } = await begin(await place())
    const other = { appId: 'bot', guildId: 'g1' }
    await registry.secrets.put('github', first)
    await registry.in().create({ name: 'mine', network: policy() })
    await registry.in(other).create({ name: 'theirs', network: policy() })
    expect(given).toEqual([first, undefined])
    expect(await registry.secrets.list(other)).toEqual([])
    // Outside of a call for a sandbox there is no scope, and labels of another registry have none.
    expect(await asked().secrets!('github')).toBeUndefined()
    const labels = (await registry.in().get('mine')).id
    const about = { labels: { 'sandkasten-sandbox': labels, 'sandkasten-registry': 'another' } }
    expect(await asked().secrets!('github', about)).toBeUndefined()
    about.labels['sandkasten-registry'] = registry.id
    expect(await asked().secrets!('github', about)).toBe(first)
  })

  it('reach running sandboxes without a restart, and stopped ones when they start', async () => {
    const { registry, given, instead } = await begin(await place())
    await registry.secrets.put('github', first)
    for (const name of ['a', 'b', 'other'])
      await registry
        .in()
        .create({ name, network: policy(name === 'other' ? name : 'github', `${name}.example`) })
    await registry.in().stop('b')
    given.length = 0
    const ask = instead.setNetwork!
    // As a vendor that changes only running sandboxes.
    instead.setNetwork = async (real, args) => {
      if (JSON.stringify(args[0]).includes('b.example'))
        throw new SandboxError('not_running', 'It does not run.')
      return ask(real, args)
    }
    expect(await registry.secrets.put('github', later)).toMatchObject({ sandboxes: ['a', 'b'], failed: [] })
    expect(given).toEqual([later])
    instead.setNetwork = ask
    await registry.in().resume('b')
    expect(given).toEqual([later, later])
    instead.setNetwork = async () => {
      throw new SandboxError('unavailable', 'The vendor is away.')
    }
    expect(await registry.secrets.put('github', first)).toMatchObject({
      version: 3,
      sandboxes: [],
      failed: [{ error: { code: 'unavailable' } }, { error: { code: 'unavailable' } }],
    })
  })

  it('have limits, whose errors do not quote the value', async () => {
    const { registry } = await begin(await place())
    const { secrets } = registry
    for (const [name, value, code] of [
      ['a b', first, 'invalid_argument'],
      ['x'.repeat(65), first, 'invalid_argument'],
      ['short', '12345', 'invalid_argument'],
      ['tab', `${first}\t`, 'invalid_argument'],
      ['long', first.repeat(200), 'too_large'],
    ] as const) {
      const error = await secrets.put(name, value).catch((error: unknown) => error)
      expect(error).toMatchObject({ code })
      expect(JSON.stringify([(error as Error).message, error])).not.toContain('ghp-')
    }
    expect(await secrets.list()).toEqual([])
  })

  it('count all versions of writes at the same time', async () => {
    const { registry } = await begin(await place())
    const written = await Promise.all(
      Array.from({ length: 8 }, (_, at) => registry.secrets.put('busy', `value-${at}`)),
    )
    expect(written.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  })

  it('are encrypted, bound to their row, and encrypted again with a new key', async () => {
    const location = await place()
    const { registry, folder, given } = await begin(location)
    await registry.secrets.put('github', first)
    await registry.secrets.put('github', later)
    await registry.secrets.put('moved', first)
    expect((await registry.credentials.rotateKey()).values).toBe(2)
    await registry.in().create({ name: 'demo', network: policy() })
    expect(given).toEqual([later])
    const database = await Database.connect<Record<string, never>>(location)
    onTestFinished(() => database.close())
    const { rows } = await sql<{ sealed: string }>`select * from sandbox_secrets`.execute(database.db)
    expect(JSON.stringify(rows)).not.toContain('ghp-')
    if ('file' in location) {
      const files = readdirSync(path.dirname(location.file)).map((name) =>
        path.join(path.dirname(location.file), name),
      )
      expect(files.some((name) => name.endsWith('.db'))).toBe(true)
      for (const file of files)
        for (const value of [first, later]) expect(readFileSync(file, 'latin1'), file).not.toContain(value)
    }
    // A person who can write to the database gives the value another name.
    await sql`delete from sandbox_secrets where secret = 'github'`.execute(database.db)
    await sql`update sandbox_secrets set secret = 'github' where secret = 'moved'`.execute(database.db)
    await expect(registry.in().create({ name: 'thief', network: policy() })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    // Plain text is refused by the database itself.
    await expect(sql`update sandbox_secrets set sealed = 'plain'`.execute(database.db)).rejects.toThrow(
      'not encrypted with the current key',
    )
    expect([kind, readdirSync(folder).length]).toBeDefined()
  })
})

it('need no key while there are none', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sk-stored-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const { registry } = await begin({ file: path.join(folder, 'registry.db') })
  await registry.in().create({ name: 'demo' })
  expect(readdirSync(folder).filter((name) => name.endsWith('.key'))).toEqual([])
})

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { defineProviderKind, type ProviderKind, providerKinds } from '@sandkasten/sdk/auto'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { type Account, startAccount } from '../providers/testing/account.ts'
import { type DatabaseLocation, openStore, type Store } from '../store/index.ts'
import { sandboxRow } from '../store/testing/rows.ts'
import { openCredentials } from './index.ts'

const goodKey = 'sk-good-key-of-the-account'
const badKey = 'sk-bad-key-of-somebody'

/** Works without settings, as `engine` does. */
const bare = defineProviderKind({
  provider: 'bare',
  title: 'Bare',
  fields: {},
  make: () => new MemoryProvider(),
})

describeOnEachDatabase('credentials', (newDatabase) => {
  let location: DatabaseLocation
  let folder: string
  let account: Account
  const stores: Store[] = []

  beforeEach(async () => {
    location = await newDatabase()
    folder = await mkdtemp(path.join(tmpdir(), 'sk-credentials-'))
    account = await startAccount(goodKey)
  })
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()))
    await account.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function process(
    env: Record<string, string> = {},
    kinds: readonly ProviderKind[] = [...providerKinds, bare],
  ) {
    const store = await openStore(location)
    stores.push(store)
    const keyFile = path.join(folder, 'key')
    const opened = await openCredentials({ store, keyFile, kinds, env, defaultProvider: 'bare' })
    return { store, ...opened }
  }
  const shown = (value: unknown) => inspect(value, { depth: 20, showHidden: true }) + JSON.stringify(value)

  it('are checked, stored, listed without secrets, and used', async () => {
    const { credentials, providers, store } = await process()
    const configured = await credentials.setup(
      'daemon',
      { url: account.url, apiKey: goodKey },
      { label: 'mine' },
    )
    expect(configured).toEqual({
      provider: 'daemon',
      title: 'Sandkasten daemon',
      label: 'mine',
      isDefault: true,
      settings: { url: account.url },
      secrets: ['apiKey'],
      checkedAt: expect.any(Date) as Date,
      stored: true,
    })
    const list = await credentials.list()
    expect(list.find(({ stored }) => stored)).toEqual(configured)
    expect(shown(list)).not.toContain(goodKey)
    const row = (await store.providers.byProvider('', 'daemon'))!
    expect(shown(row)).not.toContain(goodKey)
    const other = await process()
    const chosen = await other.providers.choose({})
    expect(chosen.credentialsId).toBe(row.id)
    expect(await chosen.provider.healthCheck()).toBe(true)
    expect((await other.providers.choose({}, 'daemon')).provider).toBe(chosen.provider)
    expect(
      await providers.of({ name: 's', app_id: '', provider: 'daemon', credentials_id: row.id }),
    ).toBeDefined()
  })

  it('that the provider does not accept are not stored', async () => {
    const { credentials, store } = await process()
    const error = await credentials
      .setup('daemon', { url: account.url, apiKey: badKey })
      .catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'unauthenticated', provider: 'daemon' })
    expect(shown(error)).not.toContain(badKey)
    expect(await store.providers.list()).toEqual([])
    await credentials.setup('daemon', { url: account.url, apiKey: goodKey })
    await expect(credentials.setup('daemon', { url: account.url, apiKey: badKey })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    const { provider } = await (await process()).providers.choose({})
    expect(await provider.healthCheck()).toBe(true)
  })

  it('are stored without asking the provider if that is wanted', async () => {
    const { credentials, providers } = await process()
    const configured = await credentials.setup(
      'daemon',
      { url: account.url, apiKey: badKey },
      { check: false },
    )
    expect(account.requests).toEqual([])
    expect(configured.checkedAt).toBeUndefined()
    const { provider } = await providers.choose({})
    const error = await provider.list().catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'unauthenticated', message: 'not accepted: Bearer [redacted]' })
    expect(shown(error)).not.toContain(badKey)
  })

  it('of a provider that does not answer are refused after the time limit, and at once when cancelled', async () => {
    const silent = await startAccount(goodKey, { silent: true })
    try {
      const { credentials, store } = await process()
      const settings = { url: silent.url, apiKey: goodKey }
      await expect(credentials.setup('daemon', settings, { timeoutMs: 100 })).rejects.toMatchObject({
        code: 'timeout',
        message: 'Sandkasten daemon did not answer within 0.1 s; nothing was stored.',
      })
      const cancel = new AbortController()
      const setup = credentials.setup('daemon', settings, { signal: cancel.signal })
      setTimeout(() => cancel.abort(), 50)
      await expect(setup).rejects.toMatchObject({ code: 'aborted' })
      expect(await store.providers.list()).toEqual([])
    } finally {
      await silent.close()
    }
  })

  it('are refused with the names of missing, unknown and misspelled things, without values', async () => {
    const { credentials } = await process()
    const refusals = [
      ['daytna', { apiKey: badKey }, { code: 'not_found', hint: 'Did you mean “daytona”?' }],
      ['nothing', {}, { code: 'not_found', hint: expect.stringContaining('Use one of daytona') as string }],
      [
        'vercel',
        { token: badKey },
        { code: 'invalid_argument', message: expect.stringMatching(/teamId.*projectId/) as string },
      ],
      [
        'daemon',
        { url: account.url, apikey: badKey },
        { code: 'invalid_argument', hint: 'Did you mean `apiKey`?' },
      ],
      [
        'daemon',
        { url: badKey, apiKey: badKey },
        { code: 'invalid_argument', message: expect.stringContaining('`url`') as string },
      ],
    ] as const
    for (const [provider, settings, expected] of refusals) {
      const error = await credentials.setup(provider, settings).catch((caught: unknown) => caught)
      expect(error).toMatchObject(expected)
      expect(shown(error)).not.toContain(badKey)
    }
  })

  it('are replaced at once: the row stays, and the next call uses the new ones', async () => {
    const { credentials, providers, store } = await process()
    const other = await process()
    await credentials.setup('daemon', { url: account.url, apiKey: badKey }, { check: false, label: 'mine' })
    const row = (await store.providers.byProvider('', 'daemon'))!
    const of = { name: 's', app_id: '', provider: 'daemon', credentials_id: row.id }
    const before = await other.providers.of(of)
    expect(await before.healthCheck()).toBe(false)
    expect(await other.providers.of(of)).toBe(before)
    const replaced = await credentials.setup('daemon', { url: account.url, apiKey: goodKey })
    expect(replaced).toMatchObject({ label: 'mine', isDefault: true })
    expect((await store.providers.byProvider('', 'daemon'))?.id).toBe(row.id)
    expect(await (await other.providers.of(of)).healthCheck()).toBe(true)
    const now = await providers.of(of)
    await credentials.rotateKey()
    expect(await providers.of(of)).toBe(now)
  })

  it('of one app are not those of another', async () => {
    const { credentials, providers } = await process()
    const scope = { appId: 'bot' }
    await credentials.setup('daemon', { url: account.url, apiKey: goodKey }, { scope })
    expect((await credentials.list()).some(({ stored }) => stored)).toBe(false)
    expect((await credentials.list(scope)).filter(({ stored }) => stored)).toHaveLength(1)
    expect((await providers.choose(scope)).provider.name).toBe('daemon')
    expect((await providers.choose({})).credentialsId).toBeNull()
    expect(await credentials.remove('daemon')).toBe(false)
    expect(await credentials.remove('daemon', { scope })).toBe(true)
  })

  it('have one default: the first, until another is chosen', async () => {
    const { credentials, providers, store } = await process()
    const setup = (provider: string, settings: Record<string, string>, makeDefault?: boolean) =>
      credentials.setup(provider, settings, { check: false, makeDefault })
    expect(await setup('daytona', { apiKey: goodKey })).toMatchObject({ isDefault: true })
    expect(await setup('e2b', { apiKey: goodKey })).toMatchObject({ isDefault: false })
    expect(await setup('daytona', { apiKey: badKey })).toMatchObject({ isDefault: true })
    const chosen = async () => (await providers.choose({})).provider.name
    expect(await chosen()).toBe('daytona')
    await credentials.setDefault('e2b')
    expect(await chosen()).toBe('e2b')
    expect(await setup('daytona', { apiKey: goodKey }, true)).toMatchObject({ isDefault: true })
    await credentials.setDefault('bare')
    expect((await providers.choose({})).row?.provider).toBe('bare')
    expect(
      (await credentials.list()).filter(({ isDefault }) => isDefault).map(({ provider }) => provider),
    ).toEqual(['bare'])
    expect((await store.providers.list('')).filter(({ is_default }) => is_default === 1)).toHaveLength(1)
    await expect(credentials.setDefault('vercel')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(credentials.setDefault('vercl')).rejects.toMatchObject({ hint: 'Did you mean “vercel”?' })
  })

  it('stored by many processes at once are one row', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => process()))
    await Promise.all(
      all.map(({ credentials }, at) =>
        credentials.setup('daemon', { url: account.url, apiKey: `key-number-${at}` }, { check: false }),
      ),
    )
    const { store, credentials, providers } = await process()
    const rows = await store.providers.list()
    expect(rows).toHaveLength(1)
    expect(rows[0]?.is_default).toBe(1)
    const stored = await credentials.list()
    expect(stored.find((one) => one.stored)).toMatchObject({ provider: 'daemon', secrets: ['apiKey'] })
    await providers.choose({})
  })

  it('that live sandboxes need are removed only by force, and the sandboxes say so then', async () => {
    const { credentials, providers, store } = await process()
    await credentials.setup('daemon', { url: account.url, apiKey: goodKey })
    const { id } = (await store.providers.byProvider('', 'daemon'))!
    const row = sandboxRow({ name: 'frontend', provider: 'daemon', credentials_id: id })
    await store.sandboxes.insert(row)
    await expect(credentials.remove('daemon')).rejects.toMatchObject({
      code: 'conflict',
      details: { sandboxes: ['frontend'] },
    })
    await providers.of(row)
    expect(await credentials.remove('daemon', { force: true })).toBe(true)
    expect(await credentials.remove('daemon')).toBe(false)
    await expect(providers.of(row)).rejects.toMatchObject({
      code: 'unauthenticated',
      message: 'The credentials of “frontend” at “daemon” were removed.',
    })
    await credentials.setup('daemon', { url: account.url, apiKey: goodKey })
    expect(await (await providers.of(row)).healthCheck()).toBe(true)
    await expect(credentials.remove('demon')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('are not sent to an address, an app or a provider that was changed in the database', async () => {
    const { credentials, store } = await process()
    const attacker = await startAccount(badKey)
    try {
      await credentials.setup('daemon', { url: account.url, apiKey: goodKey })
      const row = (await store.providers.byProvider('', 'daemon'))!
      await store.providers.upsert({
        ...row,
        config_json: row.config_json.replace(account.url, attacker.url),
      })
      const redirected = await (await process()).providers.choose({})
      expect(await redirected.provider.healthCheck()).toBe(true)
      expect(attacker.requests).toEqual([])
      await store.providers.delete(row.id)
      for (const changed of [{ provider: 'e2b' }, { app_id: 'bot' }]) {
        await store.providers.upsert({ ...row, ...changed })
        const { app_id, provider } = { ...row, ...changed }
        await expect(
          (await process()).providers.choose({ appId: app_id || undefined }, provider),
        ).rejects.toMatchObject({
          code: 'unauthenticated',
          message: `The encrypted sandbox_providers.api_key of ${row.id} cannot be read.`,
        })
        await store.providers.delete(row.id)
      }
    } finally {
      await attacker.close()
    }
  })

  it('come from the environment if none are stored', async () => {
    const env = { SANDKASTEN_URL: account.url, SANDKASTEN_API_KEY: `${goodKey}\n` }
    const { credentials, providers } = await process(env)
    const chosen = await providers.choose({})
    expect(chosen).toMatchObject({ credentialsId: null })
    expect(await chosen.provider.healthCheck()).toBe(true)
    const list = await credentials.list()
    expect(list.find(({ provider }) => provider === 'daemon')).toEqual({
      provider: 'daemon',
      title: 'Sandkasten daemon',
      isDefault: true,
      settings: { url: account.url },
      secrets: ['apiKey'],
      stored: false,
    })
    expect(shown(list)).not.toContain(goodKey)
    const row = { name: 's', app_id: '', provider: 'daemon', credentials_id: null }
    expect(await providers.of(row)).toBe(chosen.provider)
    await expect((await process()).providers.of(row)).rejects.toMatchObject({
      code: 'unauthenticated',
      message: 'The provider “daemon” of “s” is not set up in this environment.',
    })
    await credentials.setup('daemon', { url: account.url, apiKey: badKey }, { check: false })
    expect(await (await providers.choose({})).provider.healthCheck()).toBe(false)
    // The sandbox was created with those of the environment.
    expect(await providers.of(row)).toBe(chosen.provider)
  })

  it('are chosen in order: by name, stored default, environment, default of the registry', async () => {
    const { providers, credentials } = await process({ DAYTONA_API_KEY: goodKey, E2B_API_KEY: goodKey })
    expect((await providers.choose({})).provider.name).toBe('daytona')
    expect((await providers.choose({}, 'e2b')).provider.name).toBe('e2b')
    await credentials.setup('e2b', { apiKey: goodKey }, { check: false })
    expect((await providers.choose({})).provider.name).toBe('e2b')
    const named = await process({ SANDKASTEN_PROVIDER: 'bare', DAYTONA_API_KEY: goodKey })
    await credentials.remove('e2b')
    expect((await named.providers.choose({})).provider.name).toBe('memory')
    const none = await process()
    expect((await none.providers.choose({})).provider.name).toBe('memory')
    await expect(none.providers.choose({}, 'e2')).rejects.toMatchObject({
      code: 'not_found',
      hint: 'Did you mean “e2b”?',
    })
    await expect(none.providers.choose({}, 'e2b')).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: expect.stringContaining('E2B_API_KEY') as string,
    })
    const misspelled = await process({ SANDKASTEN_PROVIDER: 'daytonna', DAYTONA_API_KEY: goodKey })
    await expect(misspelled.providers.choose({})).rejects.toMatchObject({ hint: 'Did you mean “daytona”?' })
  })

  it('of all apps are returned for reconciliation, with those of the environment and those that need none', async () => {
    const { providers, credentials, store } = await process({ E2B_API_KEY: goodKey })
    await store.sandboxes.insert(sandboxRow({ provider: 'bare' }))
    await credentials.setup('daytona', { apiKey: goodKey }, { check: false })
    await credentials.setup('daytona', { apiKey: badKey }, { check: false, scope: { appId: 'bot' } })
    const all = await providers.all()
    expect(all.map(({ provider, row }) => `${provider.name} ${row?.app_id ?? '-'}`)).toEqual([
      'daytona ',
      'daytona bot',
      'e2b -',
      'memory -',
    ])
    const fewer = await process({}, [bare])
    await expect(fewer.providers.all()).rejects.toMatchObject({ code: 'not_found' })
    const unreachable: string[] = []
    expect(await fewer.providers.all((provider) => unreachable.push(provider))).toHaveLength(1)
    expect(unreachable).toEqual(['daytona', 'daytona'])
    expect((await fewer.credentials.list()).map(({ title }) => title)).toEqual(['daytona', 'Bare'])
  })
})

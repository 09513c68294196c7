import { readdirSync, readFileSync } from 'node:fs'
import type { Plugin } from '@opencode-ai/plugin'
import type { OpencodeClient } from '@opencode-ai/sdk/v2'
import plugin, { type SandkastenPluginOptions } from '@sandkasten/opencode/plugin'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type ModelServer, startModelServer } from '../../packages/opencode/src/testing/model-server.ts'
import { type Home, home, type Opencode } from './home.ts'

const missing = await isolationMissing()

it('the plugin has the shape that opencode’s types want', () => {
  expectTypeOf(plugin.server).parameter(0).not.toBeAny()
  expectTypeOf<Parameters<Plugin>[0]>().toExtend<Parameters<typeof plugin.server>[0]>()
  expectTypeOf<Awaited<ReturnType<typeof plugin.server>>>().toExtend<Awaited<ReturnType<Plugin>>>()
})

/** The real opencode at home, and what a user may do wrong. */
describe.skipIf(missing)('workspaces of opencode', () => {
  let here: Home
  let model: ModelServer
  beforeAll(async () => {
    model = await startModelServer()
    here = await home(model)
  })
  afterAll(async () => {
    await here?.[Symbol.asyncDispose]()
    await model?.close()
  }, 120_000)

  const names = async () => (await here.place.json<Array<{ name: string }>>(['list'])).map(({ name }) => name)
  const create = async (client: OpencodeClient, extra?: object) => {
    const { data, error } = await client.experimental.workspace.create({ type: 'sandkasten', extra })
    return data ?? String((error as { data?: { message?: string } }).data?.message)
  }
  const nothing = async (client: OpencodeClient) => {
    expect((await client.experimental.workspace.list()).data).toEqual([])
    expect(await names()).toEqual([])
  }

  const connected = async ({ client }: Opencode) => {
    const status = async () => {
      await client.sync.start()
      return (await client.experimental.workspace.status()).data?.[0]?.status
    }
    await expect.poll(status, { timeout: 60_000, interval: 500 }).toBe('connected')
  }

  it.each<[string, SandkastenPluginOptions & Record<string, unknown>, RegExp]>([
    ['an absent program', { command: ['/nonexistent/sandkasten'] }, /not installed.*npm install --global/],
    ['a program of another kind', { command: ['false'] }, /sandkasten has ended/],
    ['an unknown option', { modle: 'x' }, /no option “modle”/],
    ['an unknown provider', { provider: 'nowhere' }, /no provider “nowhere”/],
    ['a key instead of a name', { credentials: ['sk-very-secret'] }, /names of variables/],
    ['an unset variable', { credentials: ['ABSENT_API_KEY'] }, /ABSENT_API_KEY.*not set.*Export it/],
    ['an unknown model address', { model: 'other/m1' }, /address.*“other”.*modelUrl/],
    ['a network and rules', { network: 'none', allow: ['github.com'] }, /does not go with/],
    ['a size that opencode cannot run in', { sandbox: { memoryMb: 48 } }, /opencode|memory/],
  ])(
    '%s: says what is wrong, and leaves nothing',
    async (_, options, text) => {
      const { client, log } = await here.start({ options })
      const said = await create(client)
      expect(said).toMatch(text)
      expect(`${said}${log()}`).not.toContain('very-secret')
      await nothing(client)
    },
    120_000,
  )

  it('a folder without a commit, and no model', async () => {
    const empty = await here.start({ config: { model: undefined } })
    expect(await create(empty.client)).toMatch(/No model is configured.*Set `model`/)
    await here.git('checkout', '--quiet', '--orphan', 'empty')
    const { client } = await here.start()
    expect(await create(client)).toMatch(/no git repository with a commit/)
    await here.git('checkout', '--quiet', 'main')
    await nothing(client)
  })

  it('a create that opencode leaves is undone', async () => {
    const opencode = await here.start()
    const creating = create(opencode.client).catch(() => {})
    await expect.poll(names).toHaveLength(1)
    await opencode.kill()
    await creating
    await expect.poll(names, { timeout: 60_000 }).toEqual([])
  }, 120_000)

  it('a plugin of the project that cannot be installed without a network', async () => {
    await here.write('opencode.json', JSON.stringify({ plugin: ['sandkasten-absent-plugin'] }))
    const { client } = await here.start()
    const made = await create(client)
    expect(made).toMatchObject({ type: 'sandkasten' })
    const { id } = made as { id: string }
    const session = (await client.session.create({ workspace: id })).data!
    const parts = [{ type: 'text' as const, text: 'one' }]
    expect((await client.session.prompt({ sessionID: session.id, parts })).error).toBeUndefined()
    await client.experimental.workspace.remove({ id })
    await here.remove('opencode.json')
    await nothing(client)
  }, 300_000)

  it('opencode starts again, and a workspace and its sandbox go on', async () => {
    const first = await here.start({ env: { SOME_API_KEY: 'sk-readable' } })
    const made = await create(first.client, { name: 'chosen' })
    expect(made).toMatchObject({ name: 'chosen' })
    const { id, name } = made as { id: string; name: string }
    const session = (await first.client.session.create({ workspace: id })).data!
    model.script = () => ({ text: 'first' })
    await first.client.session.prompt({ sessionID: session.id, parts: [{ type: 'text', text: 'one' }] })
    const helper = helperOf(first)
    // Neither arguments nor the opencode at home have what opens the server in the sandbox.
    expect(readFileSync(`/proc/${helper}/cmdline`, 'utf8')).toMatch(/workspaces\0$/)
    expect(await create(first.client, { name: 'chosen' })).toMatch(/chosen/)
    expect(await names()).toEqual(['chosen'])

    const second = await here.start()
    await expect.poll(() => isAlive(helper)).toBe(false)
    await connected(second)
    model.script = () => ({ text: 'second' })
    const asked = async (text: string) =>
      (await second.client.session.prompt({ sessionID: session.id, parts: [{ type: 'text', text }] })).data
        ?.parts
    expect(await asked('two')).toContainEqual(expect.objectContaining({ text: 'second' }))
    // opencode gives up a stream that is cut off, until it is told to begin again. The address stays the same.
    const killed = helperOf(second)
    process.kill(killed, 'SIGKILL')
    await expect.poll(() => isAlive(killed)).toBe(false)
    await connected(second)
    expect(await asked('three')).toContainEqual(expect.objectContaining({ text: 'second' }))
    // A workspace that opencode has forgotten is found by its sandbox.
    await here.place.ok(['stop', '--force', name])
    await here.forget()
    const third = await here.start()
    await third.client.experimental.workspace.syncList()
    const found = (await third.client.experimental.workspace.list()).data!
    expect(found).toMatchObject([{ type: 'sandkasten', name, directory: '/workspace' }])
    expect((await third.client.experimental.workspace.remove({ id: found[0]!.id })).error).toBeUndefined()
    await nothing(third.client)
  }, 300_000)
})

/** The process `sandkasten workspaces` of this opencode. */
function helperOf({ pid }: Opencode): number {
  const children = readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1]
      return Number(parent) === pid && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('workspaces')
    } catch {
      return false
    }
  })
  expect(children).toHaveLength(1)
  return Number(children[0])
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

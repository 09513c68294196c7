import path from 'node:path'
import type { Event, OpencodeClient, Workspace } from '@opencode-ai/sdk/v2'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type ModelServer,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { rows } from '../sandboxes/rows.ts'
import { type Home, home, type Opencode, warp } from './home.ts'

/** The model as a service of the provider, which is all that a sandbox reaches. */
const providers = {
  engine: (model: ModelServer) => ({ daemon: {}, modelUrl: model.url }),
  daemon: (model: ModelServer) => ({
    daemon: {
      allowed_networks: ['none', 'policy'],
      egress: { services: { model: { host: '127.0.0.1', port: model.port } } },
      defaults: { memory_mb: 1536, cpu_limit: 2, pids_limit: 1024 },
    },
    modelUrl: 'http://model.sandkasten.internal/v1',
  }),
}

/** The real opencode at home, with the plugin, and the real opencode in a sandbox. The tests build on each other. */
describe.each(Object.keys(providers) as Array<keyof typeof providers>)('workspaces at %s', (provider) => {
  const row = rows.find((one) => one.provider === provider)!
  let missing: string | undefined
  let here: Home
  let model: ModelServer
  let service: Awaited<ReturnType<typeof row.start>> | undefined
  let opencode: Opencode
  let client: OpencodeClient
  let workspace: Workspace

  beforeAll(async () => {
    missing = await row.missing()
    if (missing !== undefined) return
    model = await startModelServer()
    const { daemon, modelUrl } = providers[provider](model)
    service = await row.start(daemon)
    here = await home(model)
    if (service.settings !== undefined)
      await here.place.ok(['setup', provider, '--stdin'], { input: JSON.stringify(service.settings) })
    opencode = await here.start({ options: { provider, modelUrl } })
    client = opencode.client
  }, 120_000)
  afterAll(async () => {
    await here?.[Symbol.asyncDispose]()
    await service?.stop()
    await model?.close()
  }, 120_000)

  const inside = (line: string) => here.place.ok(['exec', workspace.name, '--', 'sh', '-c', line])
  const sandboxes = () => here.place.json<Array<{ name: string; provider: string; status: string }>>(['list'])
  const prompt = async (sessionID: string, text: string) => {
    const { data, error } = await client.session.prompt({ sessionID, parts: [{ type: 'text', text }] })
    expect(error).toBeUndefined()
    return data!
  }
  const texts = async (sessionID: string) =>
    (await client.session.messages({ sessionID })).data!.map(({ parts }) =>
      parts.flatMap((part) => (part.type === 'text' ? part.text : [])).join(),
    )

  it('creates one: a named sandbox with the project, and nothing else to reach', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const adapters = (await client.experimental.workspace.adapter.list()).data
    expect(adapters).toContainEqual({
      type: 'sandkasten',
      name: 'Sandkasten',
      description: 'A sandbox with a copy of this project',
    })
    // Not committed, and in the workspace all the same.
    await here.write('notes.txt', 'first\nfrom home\n')
    const created = await client.experimental.workspace.create({ type: 'sandkasten' })
    expect(created.error).toBeUndefined()
    workspace = created.data!
    expect(await sandboxes()).toMatchObject([{ name: workspace.name, provider, status: 'running' }])
    expect((await client.experimental.workspace.status()).data).toEqual([
      { workspaceID: workspace.id, status: 'connected' },
    ])
    expect(await inside('cat notes.txt; git log --format=%s')).toBe('first\nfrom home\nfirst')
    expect(await here.place.json(['network', workspace.name])).toMatchObject({
      allow: [],
      services: { model: {} },
    })
  }, 240_000)

  it('runs a session there, and its events arrive here', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const stop = new AbortController()
    const { stream } = await client.global.event({ signal: stop.signal })
    const events: Event[] = []
    const session = (await client.session.create({ workspace: workspace.id, title: 'there' })).data!
    expect(session).toMatchObject({ workspaceID: workspace.id, directory: here.folder })
    const idle = (async () => {
      for await (const { payload } of stream) {
        events.push(payload as Event)
        if (payload.type === 'session.idle' && payload.properties.sessionID === session.id) return
      }
    })()
    const sum = path.posix.join(workspace.directory!, 'sum.js')
    model.script = steps(
      { tool: 'bash', args: { command: 'pwd > made.txt', description: 'Makes a file' } },
      { tool: 'read', args: { filePath: sum } },
      { tool: 'edit', args: { filePath: sum, oldString: 'a - b', newString: 'a + b' } },
    )
    const { info } = await prompt(session.id, 'fix it')
    expect(info.path.cwd).toBe(workspace.directory)
    await idle
    stop.abort()
    const types = new Set(events.map(({ type }) => type))
    expect([...types]).toEqual(expect.arrayContaining(['message.updated', 'message.part.updated']))
    expect(await inside('cat sum.js made.txt')).toBe(
      `export const sum = (a, b) => a + b\n${workspace.directory}`,
    )
    expect(await here.file('sum.js')).toContain('a - b')
    expect((await texts(session.id)).at(-1)).toBe('done')
    expect((await client.session.list()).data!.map(({ id }) => id)).toContain(session.id)
  }, 120_000)

  it('has terminals', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const command = { command: 'sh', args: ['-c', 'read line; echo "$line from $PWD"'] }
    const pty = (await client.pty.create({ workspace: workspace.id, ...command })).data!
    const headers = { 'x-opencode-ticket': '1' }
    const token = await client.pty.connectToken({ ptyID: pty.id, workspace: workspace.id }, { headers })
    const query = new URLSearchParams({ workspace: workspace.id, ticket: token.data!.ticket })
    const socket = new WebSocket(`${opencode.url.replace('http', 'ws')}/pty/${pty.id}/connect?${query}`)
    socket.binaryType = 'arraybuffer'
    const said = new Promise<void>((resolve, reject) => {
      let text = ''
      socket.addEventListener('error', () => reject(new Error('The terminal does not connect.')))
      socket.addEventListener('message', ({ data }) => {
        text += typeof data === 'string' ? data : new TextDecoder().decode(data)
        if (text.includes(`hello from ${workspace.directory}`)) resolve()
      })
    })
    socket.addEventListener('open', () => socket.send('hello\n'))
    await said
    socket.close()
  }, 60_000)

  it('a session goes home with its changes, and works on there', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const [session] = (await client.session.list()).data!
    // What home has already is not sent again: it would not apply.
    expect(await warp(client, null, session!.id)).toEqual([204, undefined])
    expect(await here.git('status', '--porcelain')).toBe('M notes.txt\n M sum.js\n?? made.txt')
    expect(await here.file('sum.js')).toContain('a + b')
    model.script = steps({ tool: 'bash', args: { command: 'pwd > here.txt', description: 'x' } })
    expect((await prompt(session!.id, 'and here')).info.path.cwd).toBe(here.folder)
    expect(await here.file('here.txt')).toBe(`${here.folder}\n`)
    // opencode keeps a session that came home from following a workspace again.
    const [status, message] = await warp(client, workspace.id, session!.id)
    expect([status, message]).toEqual([400, expect.stringContaining('came home')])
  }, 120_000)

  it('a session of home goes there, and takes the changes of home along', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const session = (await client.session.create({ title: 'from here' })).data!
    model.script = () => ({ text: 'said here' })
    await prompt(session.id, 'one')
    await here.settled(client, session.id)
    await here.write('notes.txt', 'first\nchanged at home\n')
    expect(await warp(client, workspace.id, session.id)).toEqual([204, undefined])
    model.script = steps({ tool: 'bash', args: { command: 'cp notes.txt copied.txt', description: 'x' } })
    expect((await prompt(session.id, 'two')).info.path.cwd).toBe(workspace.directory)
    expect(await inside('cat copied.txt here.txt')).toBe(`first\nchanged at home\n${here.folder}`)
    expect(await texts(session.id)).toEqual(['one', 'said here', 'two', '', 'done'])
    await warp(client, null, session.id)
    expect(await here.file('copied.txt')).toBe('first\nchanged at home\n')
    // A copy of it can go there.
    const fork = (await client.session.fork({ sessionID: session.id })).data!
    await here.settled(client, fork.id)
    expect(await warp(client, workspace.id, fork.id)).toEqual([204, undefined])
    model.script = () => ({ text: 'forked' })
    await prompt(fork.id, 'three')
    expect((await texts(fork.id)).slice(-2)).toEqual(['three', 'forked'])
    // A change on both sides: nothing is overwritten, and the session stays.
    await inside('echo there > sum.js')
    await here.write('sum.js', 'here\n')
    expect(await warp(client, null, fork.id)).toEqual([400, expect.stringMatching(/patch/i)])
    expect([await here.file('sum.js'), await inside('cat sum.js')]).toEqual(['here\n', 'there'])
  }, 240_000)

  it('a stopped sandbox starts with the next prompt, and its sessions are there', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const session = (await client.session.create({ workspace: workspace.id, title: 'long' })).data!
    model.script = () => ({ text: 'before' })
    await prompt(session.id, 'one')
    expect((await here.place.run(['stop', workspace.name])).stderr).toContain('opencode')
    await here.place.ok(['stop', '--force', workspace.name])
    model.script = () => ({ text: 'after' })
    await expect
      .poll(async () => (await client.experimental.workspace.status()).data?.[0]?.status)
      .toBe('connected')
    // Nothing but a request of the user starts it.
    expect(await sandboxes()).toMatchObject([{ status: 'stopped' }])
    await prompt(session.id, 'two')
    expect(await sandboxes()).toMatchObject([{ status: 'running' }])
    expect(await texts(session.id)).toEqual(['one', 'before', 'two', 'after'])
  }, 240_000)

  it('removing it removes its sandbox', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    expect((await client.experimental.workspace.remove({ id: workspace.id })).data?.id).toBe(workspace.id)
    expect(await sandboxes()).toEqual([])
    expect((await client.experimental.workspace.list()).data).toEqual([])
    expect(await here.remembered()).toEqual([])
  }, 60_000)
})

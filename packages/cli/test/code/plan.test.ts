import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import type { CodeOptions } from '../../src/sandbox/code/options.ts'
import { planOf } from '../../src/sandbox/code/plan.ts'
import { nameOf, projectAt, remoteOf } from '../../src/sandbox/code/project.ts'
import { Memory, type Remembered } from '../../src/sandbox/code/remembered.ts'
import { programEnv, settingsOf } from '../../src/sandbox/code/settings.ts'
import { checkSize } from '../../src/sandbox/code/size.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sk-code-plan-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => vi.unstubAllEnvs())

const project = { folder, name: 'code-x', isGit: true, remote: { host: 'github.com', port: 443 } }
const planned = (options: CodeOptions, before: Remembered = {}) => planOf(options, before, project)
const anthropic = { model: 'anthropic/claude-sonnet-4-5', credential: ['ANTHROPIC_API_KEY'] }

describe('the network', () => {
  it('has the model and the repository, and a key that the agent never has', () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'sk-real')
    const { agent, model, accesses } = planned(anthropic)
    expect(accesses[0]).toEqual({
      network: {
        allow: [
          { host: 'api.anthropic.com', ports: [443], protocol: 'tls' },
          { host: 'github.com', ports: [443] },
        ],
        transform: [
          { match: { host: 'api.anthropic.com' }, headers: { 'x-api-key': { secret: 'ANTHROPIC_API_KEY' } } },
        ],
      },
      credentials: [{ variable: 'ANTHROPIC_API_KEY', secret: 'ANTHROPIC_API_KEY' }],
      readable: [],
      modelUrl: undefined,
    })
    const settings = settingsOf(agent, model, accesses[0]!)
    expect(JSON.stringify(settings)).not.toContain('sk-real')
    expect(settings.config).toEqual({
      enabled_providers: ['anthropic'],
      provider: { anthropic: { options: { apiKey: 'sandkasten-secret-ANTHROPIC_API_KEY' } } },
    })
  })

  it('gets weaker where a provider cannot enforce it: names only, then a readable key, then its default', () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'sk-real')
    const ways = planned(anthropic).accesses.map(({ network, readable }) => [
      typeof network === 'object' ? network.allow : network,
      typeof network === 'object' && network.transform !== undefined,
      readable,
    ])
    const names = ['api.anthropic.com', 'github.com']
    expect(ways.slice(1)).toEqual([
      [names, true, []],
      [names, false, ['ANTHROPIC_API_KEY']],
      [undefined, false, ['ANTHROPIC_API_KEY']],
    ])
  })

  it('never gets weaker than what --allow asks for', () => {
    const { accesses } = planned({ model: 'openai/gpt-5', allow: ['preset:packages'] })
    expect(accesses.every(({ network }) => typeof network === 'object')).toBe(true)
    expect(accesses[0]!.network).toMatchObject({
      allow: [{ host: 'api.openai.com' }, { host: 'github.com' }, 'preset:packages'],
    })
  })

  it('--network replaces it', () => {
    const { accesses } = planned({ model: 'openai/gpt-5', network: 'open' })
    expect(accesses).toEqual([{ network: 'open', credentials: [], readable: [], modelUrl: undefined }])
  })

  it('has a model on this machine as a service', () => {
    const { accesses, model, agent } = planned({ model: 'local/m1', modelUrl: 'http://127.0.0.1:8899/v1' })
    expect(accesses[0]!.network).toMatchObject({ services: { model: { host: '127.0.0.1', port: 8899 } } })
    expect(settingsOf(agent, model, accesses[0]!).config).toMatchObject({
      provider: {
        local: { options: { baseURL: 'http://model.sandkasten.internal/v1' }, models: { m1: {} } },
      },
    })
    // Without a policy nothing translates the name.
    expect(settingsOf(agent, model, accesses.at(-1)!).config).toMatchObject({
      provider: { local: { options: { baseURL: 'http://127.0.0.1:8899/v1' } } },
    })
  })

  it('gives a key to the model that it belongs to, and not to another one', () => {
    for (const name of ['GITHUB_TOKEN', 'LOCAL_API_KEY']) vi.stubEnv(name, 'value')
    const url = { model: 'local/m1', modelUrl: 'https://models.example.com/v1' }
    const other = planned({ ...url, credential: ['GITHUB_TOKEN'] })
    expect(other.model.key).toBeUndefined()
    expect(other.accesses[0]).toMatchObject({ readable: ['GITHUB_TOKEN'] })
    const own = planned({ ...url, credential: ['GITHUB_TOKEN', 'LOCAL_API_KEY'] })
    expect(own.accesses[0]).toMatchObject({
      readable: ['GITHUB_TOKEN'],
      network: {
        transform: [
          {
            match: { host: 'models.example.com' },
            headers: { authorization: { secret: 'LOCAL_API_KEY', prefix: 'Bearer ' } },
          },
        ],
      },
    })
  })

  it('cannot add a key to plain HTTP or on another port, so the agent can read it', () => {
    vi.stubEnv('LOCAL_API_KEY', 'sk-real')
    const own = { model: 'local/m1', credential: ['LOCAL_API_KEY'] }
    const otherPort = planned({ ...own, modelUrl: 'https://models.example.com:8443/v1' })
    expect(otherPort.accesses[0]).toMatchObject({ readable: ['LOCAL_API_KEY'] })
    const { agent, model, accesses } = planned({ ...own, modelUrl: 'http://127.0.0.1:8899/v1' })
    expect(accesses[0]).toMatchObject({
      readable: ['LOCAL_API_KEY'],
      credentials: [{ variable: 'LOCAL_API_KEY' }],
    })
    expect(settingsOf(agent, model, accesses[0]!).config).toMatchObject({
      provider: { local: { options: { apiKey: '{env:LOCAL_API_KEY}' } } },
    })
  })
})

describe('what an earlier run remembered', () => {
  const before: Remembered = {
    agent: 'opencode',
    model: 'local/m1',
    modelUrl: 'http://127.0.0.1:1/v1',
    allow: ['a.com'],
  }

  it('is used again', () => {
    expect(planned({}, before)).toMatchObject({ agent: 'opencode', choices: before })
  })

  it('keeps the address for another model of the same provider only', () => {
    expect(planned({ model: 'local/m2' }, before).model.url).toBe(before.modelUrl)
    expect(planned({ model: 'openai/gpt-5' }, before).model.url).toBe('https://api.openai.com')
  })

  it('is not the model of another agent', () => {
    const { model, accesses, agent } = planned({ agent: 'claude' }, before)
    expect(model).toMatchObject({ name: undefined, url: 'https://api.anthropic.com' })
    expect(settingsOf(agent, model, accesses[0]!)).toEqual({ credentials: [], model: undefined, envVars: {} })
  })

  it('is in a file without values, for one sandbox', async () => {
    const memory = new Memory(folder, 'id/../1')
    expect(await memory.read()).toEqual({})
    await memory.add(before)
    await memory.addSession('opencode', 'ses_1')
    await memory.addSession('claude', 'abc')
    expect(await memory.read()).toEqual({ ...before, sessions: { opencode: 'ses_1', claude: 'abc' } })
    expect(await new Memory(folder, '2').read()).toEqual({})
    writeFileSync(path.join(folder, 'code/3.json'), '{"agent":')
    expect(await new Memory(folder, '3').read()).toEqual({})
  })
})

it('claude gets the address and the key as variables', () => {
  vi.stubEnv('ANTHROPIC_API_KEY', 'sk-real')
  const { agent, model, accesses } = planned({
    agent: 'claude',
    model: 'anthropic/claude-x',
    modelUrl: 'http://127.0.0.1:9999',
    credential: ['ANTHROPIC_API_KEY'],
  })
  expect(programEnv(agent, settingsOf(agent, model, accesses[0]!))).toMatchObject({
    ANTHROPIC_BASE_URL: 'http://model.sandkasten.internal',
    ANTHROPIC_API_KEY: 'sk-real',
    ANTHROPIC_MODEL: 'claude-x',
  })
})

it.each([
  ['https://github.com/a/b.git', { host: 'github.com', port: 443 }],
  ['https://user:token@git.example.com:8443/a', { host: 'git.example.com', port: 8443 }],
  ['git@github.com:a/b.git', { host: 'github.com', port: 22 }],
  ['github.com:a/b.git', { host: 'github.com', port: 22 }],
  ['ssh://git@git.example.com:2222/a', { host: 'git.example.com', port: 2222 }],
  ['/srv/git/a.git', undefined],
  ['../a:b', undefined],
  ['file:///srv/git/a.git', undefined],
  ['C:\\git\\a', undefined],
  ['http://localhost/a', undefined],
  ['http://127.0.0.1/a', undefined],
  ['ext::sh -c id', undefined],
])('the host of %s', (url, host) => {
  expect(remoteOf(`remote.origin.url ${url}`)).toEqual(host)
})

it('origin comes before other remotes', () => {
  const lines = 'remote.a.url https://a.example.com/x\nremote.origin.url https://b.example.com/x'
  expect(remoteOf(lines)?.host).toBe('b.example.com')
  expect(remoteOf(lines.split('\n')[0])?.host).toBe('a.example.com')
})

it('names a sandbox after the real folder', async () => {
  expect(nameOf('/home/ada/My  App!')).toMatch(/^code-my-app-[0-9a-f]{6}$/)
  expect(nameOf('/a/x')).not.toBe(nameOf('/b/x'))
  expect(nameOf('/a/日本')).toMatch(/^code-project-[0-9a-f]{6}$/)
  expect(nameOf(`/a/${'x'.repeat(200)}`).length).toBeLessThanOrEqual(63)
  mkdirSync(path.join(folder, 'real'))
  symlinkSync('real', path.join(folder, 'link'))
  expect(await projectAt(path.join(folder, 'link'))).toEqual(await projectAt(path.join(folder, 'real')))
})

describe('a huge project', () => {
  const at = path.join(folder, 'huge')
  const limits = { files: 10, bytes: 1000 }

  it('is refused, and ignored files do not count', async () => {
    mkdirSync(path.join(at, 'deep'), { recursive: true })
    for (let file = 0; file < 11; file += 1) writeFileSync(path.join(at, `deep/${file}`), 'x')
    const plain = { folder: at, name: 'x', isGit: false }
    await expect(checkSize(plain, limits)).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('10 files'),
    })
    execFileSync('git', ['init', '--quiet', at])
    await expect(checkSize({ ...plain, isGit: true }, limits)).rejects.toMatchObject({ code: 'too_large' })
    writeFileSync(path.join(at, '.gitignore'), 'deep\n')
    await checkSize({ ...plain, isGit: true }, limits)
    writeFileSync(path.join(at, 'big'), 'x'.repeat(2000))
    await expect(checkSize({ ...plain, isGit: true }, limits)).rejects.toMatchObject({ code: 'too_large' })
  })
})

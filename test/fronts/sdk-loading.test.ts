import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import * as sprites from '@fly/sprites'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { SpritesProvider } from '@sandkasten/sdk/sprites'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import * as vercel from '@vercel/sandbox'
import * as e2b from 'e2b'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const refusing = (async () => new Response('{}', { status: 401 })) as typeof fetch
const three = { token: 't', teamId: 't', projectId: 'p' }

class Old {}

/** A module that looks like another version. */
const vercelOf = (version: string) =>
  Object.assign(class {}, {
    list: ({ fetch }: { fetch: typeof globalThis.fetch }) =>
      fetch('https://vercel.com/api/v2/sandboxes', {
        headers: { 'user-agent': `vercel/sandbox/${version} (x)` },
      }),
  })

const vendors = [
  {
    name: '@vercel/sandbox',
    provider: 'VercelProvider',
    from: '@sandkasten/sdk/vercel',
    options: three,
    version: '3.x',
    install: 'npm install @vercel/sandbox@3',
    real: vercel as object,
    asks: (sdk: unknown) => new VercelProvider({ ...three, fetch: refusing, sdk }).list(),
    answer: 'unauthenticated',
    // 1.x, where a sandbox was one run; 2.x looks like 3.x, and is recognised by its requests.
    old: [
      { Sandbox: Old, Snapshot: Old },
      { Sandbox: vercelOf('2.9.2'), Snapshot: Old, Session: Old },
    ],
  },
  {
    name: 'e2b',
    provider: 'E2BProvider',
    from: '@sandkasten/sdk/e2b',
    options: { apiKey: 'k' },
    version: '2.x',
    install: 'npm install e2b@2',
    real: e2b as object,
    asks: (sdk: unknown) => new E2BProvider({ apiKey: 'k', apiUrl: 'http://127.0.0.1:1', sdk }).list(),
    // A port that fetch refuses.
    answer: 'connection_lost',
    // 1.x has neither snapshots nor forks.
    old: [{ Sandbox: Old }, { Sandbox: Object.assign(class {}, { create: () => {}, connect: () => {} }) }],
  },
  {
    name: '@fly/sprites',
    provider: 'SpritesProvider',
    from: '@sandkasten/sdk/sprites',
    options: { token: 't' },
    version: '0.x',
    install: 'npm install @fly/sprites@0',
    real: sprites as object,
    asks: (sdk: unknown) =>
      new SpritesProvider({ token: 't', baseUrl: 'http://127.0.0.1:1', env: {}, sdk }).list(),
    // A port that fetch refuses.
    answer: 'connection_lost',
    // 0.0.x cannot set labels.
    old: [{ SpritesClient: Old }, { SpritesClient: () => {} }],
  },
]

describe.each(vendors)('the SDK $name', (vendor) => {
  it('can be passed in: as a module, its promise, or a function that imports it', async () => {
    const { real } = vendor
    for (const sdk of [real, { default: real }, Promise.resolve(real), () => real, async () => real])
      await expect(vendor.asks(sdk)).rejects.toMatchObject({ code: vendor.answer })
  })

  it('is rejected if it is another module or another major version', async () => {
    for (const sdk of [{}, { Sandbox: {} }, () => undefined, ...vendor.old])
      await expect(vendor.asks(sdk)).rejects.toMatchObject({
        code: 'sdk_missing',
        hint: expect.stringContaining(vendor.install),
      })
  })

  describe('that is installed', () => {
    let folder: string
    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-sdk-'))
    })
    afterAll(() => rm(folder, { recursive: true, force: true }))

    /** What a user sees if the package consists of these two files. */
    const told = async (module: string, version: string): Promise<{ code: string; message: string }> => {
      const file = async (name: string, text: string) => {
        await writeFile(path.join(folder, name), text)
        return pathToFileURL(path.join(folder, name)).href
      }
      const urls = {
        [vendor.name]: await file('sandbox.mjs', module),
        [`${vendor.name}/package.json`]: await file(
          'package.json',
          JSON.stringify({ version, type: 'module' }),
        ),
      }
      const hooks = `import { registerHooks } from 'node:module'
        const urls = ${JSON.stringify(urls)}
        registerHooks({ resolve: (name, context, next) =>
          urls[name] ? { url: urls[name], shortCircuit: true, importAttributes: context.importAttributes } : next(name, context) })`
      const program = `import { ${vendor.provider} } from '${vendor.from}'
        const provider = new ${vendor.provider}(${JSON.stringify(vendor.options)})
        await provider.list().catch(({ code, message }) => console.log(JSON.stringify({ code, message })))`
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [
          '--conditions=sandkasten-source',
          '--import',
          await file('hooks.mjs', hooks),
          '--input-type=module',
          '-e',
          program,
        ],
        { cwd: path.join(root, 'packages/daemon') },
      )
      return JSON.parse(stdout)
    }

    it('in another major version is named with its version', async () => {
      const module = 'export class Sandbox {}; export class Snapshot {}; export class Session {}'
      for (const version of ['1.9.3', '4.1.0'])
        expect(await told(module, version)).toEqual({
          code: 'sdk_missing',
          message: `${vendor.name} ${version} is installed; this provider supports ${vendor.version}.`,
        })
    })

    it('with a missing dependency is not reported as missing itself', async () => {
      expect(await told("import 'sandkasten-no-such-package'", '3.5.0')).toEqual({
        code: 'sdk_missing',
        message: `The package ${vendor.name} is installed, but does not load.`,
      })
    })
  })
})

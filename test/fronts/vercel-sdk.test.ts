import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import * as real from '@vercel/sandbox'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import type { VendorSandbox, VendorSession, VercelSdk } from '../../packages/sdk/src/providers/vercel/sdk.ts'

const root = path.resolve(import.meta.dirname, '../..')
const credentials = { token: 't', teamId: 't', projectId: 'p' }

describe('the SDK of Vercel', () => {
  it('has the part that we call, with these types', () => {
    expectTypeOf<real.Sandbox>().toExtend<VendorSandbox>()
    expectTypeOf<real.Session>().toExtend<VendorSession>()
    expectTypeOf<Awaited<ReturnType<typeof real.Sandbox.get>>>().toExtend<VendorSandbox>()
    expectTypeOf<Awaited<ReturnType<typeof real.Snapshot.get>>>().toExtend<
      Awaited<ReturnType<VercelSdk['Snapshot']['get']>>
    >()
    expectTypeOf<Awaited<ReturnType<typeof real.Sandbox.list>>>().toExtend<
      Awaited<ReturnType<VercelSdk['Sandbox']['list']>>
    >()
    expectTypeOf<Awaited<ReturnType<typeof real.Snapshot.list>>>().toExtend<
      Awaited<ReturnType<VercelSdk['Snapshot']['list']>>
    >()
  })

  it('can be handed in; what is not it is refused', async () => {
    const fetch = (async () => new Response('{}', { status: 401 })) as typeof globalThis.fetch
    await expect(new VercelProvider({ ...credentials, fetch, sdk: real }).list()).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    for (const sdk of [{}, { Sandbox: {} }])
      await expect(new VercelProvider({ ...credentials, fetch, sdk }).list()).rejects.toMatchObject({
        code: 'sdk_missing',
        hint: expect.stringContaining('npm install @vercel/sandbox@3'),
      })
  })

  describe('that is installed', () => {
    let folder: string
    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-sdk-'))
    })
    afterAll(() => rm(folder, { recursive: true, force: true }))

    /** What a user sees whose `@vercel/sandbox` is these two files. */
    const told = async (module: string, version: string): Promise<{ code: string; message: string }> => {
      const file = async (name: string, text: string) => {
        await writeFile(path.join(folder, name), text)
        return pathToFileURL(path.join(folder, name)).href
      }
      const urls = {
        '@vercel/sandbox': await file('sandbox.mjs', module),
        '@vercel/sandbox/package.json': await file(
          'package.json',
          JSON.stringify({ version, type: 'module' }),
        ),
      }
      const hooks = `import { registerHooks } from 'node:module'
        const urls = ${JSON.stringify(urls)}
        registerHooks({ resolve: (name, context, next) =>
          urls[name] ? { url: urls[name], shortCircuit: true, importAttributes: context.importAttributes } : next(name, context) })`
      const program = `import { VercelProvider } from '@sandkasten/sdk/vercel'
        const provider = new VercelProvider(${JSON.stringify(credentials)})
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
      expect(await told(module, '4.1.0')).toEqual({
        code: 'sdk_missing',
        message: '@vercel/sandbox 4.1.0 is installed; this provider knows 3.x.',
      })
    })

    it('and misses a package of its own is not called missing itself', async () => {
      const answer = await told("import 'sandkasten-no-such-package'", '3.5.0')
      expect(answer).toEqual({
        code: 'sdk_missing',
        message: 'The package @vercel/sandbox is there, but does not load.',
      })
    })
  })
})

/** K13: the version is resolved as Node resolves packages, and `latest` is never used. */
import { mkdirSync, symlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { problemsOf, project, realProject, SHELL } from '../../test/project.ts'
import { check } from '../sync.ts'
import { sdkVersion } from './sdk-version.ts'

const pkg = (version: string) => `{"name":"@cloudflare/sandbox","version":"${version}"}`
const imageOf = async (root: string) => (await check({ root })).sandboxes[0]?.image

test('hoisted: the SDK is in a folder above the project', async () => {
  const { path, write } = project({ 'node_modules/@cloudflare/sandbox/package.json': pkg('1.2.3') }, null)
  write({ 'apps/web/src/server/shell.sandbox.ts': SHELL, 'apps/web/wrangler.jsonc': '{}' })
  expect(await imageOf(path('apps/web'))).toBe('docker.io/cloudflare/sandbox:1.2.3')
})

test('the nearest one wins: a workspace with its own version', async () => {
  const { path, write } = project({}, '1.0.0')
  write({
    'apps/web/node_modules/@cloudflare/sandbox/package.json': pkg('2.0.0'),
    'apps/web/src/server/shell.sandbox.ts': SHELL,
    'apps/web/wrangler.jsonc': '{}',
  })
  expect(await imageOf(path('apps/web'))).toBe('docker.io/cloudflare/sandbox:2.0.0')
})

test('pnpm: a link into a store', async () => {
  const made = project({ 'src/server/shell.sandbox.ts': SHELL, 'wrangler.jsonc': '{}' }, null)
  const store = 'node_modules/.pnpm/@cloudflare+sandbox@3.1.4/node_modules/@cloudflare/sandbox'
  made.write({ [`${store}/package.json`]: pkg('3.1.4') })
  const link = made.path('node_modules/@cloudflare/sandbox')
  mkdirSync(dirname(link), { recursive: true })
  symlinkSync(made.path(store), link, 'dir')
  expect(await imageOf(made.root)).toBe('docker.io/cloudflare/sandbox:3.1.4')
})

test('the real package, whose exports hide its package.json', () => {
  const { path } = realProject({ 'src/server/shell.sandbox.ts': SHELL })
  expect(sdkVersion(path('src/server/shell.sandbox.ts'))).toBe('0.12.10')
})

test('not installed: an error with the command, never the image tag latest', async () => {
  const { root, read } = project({ 'src/server/shell.sandbox.ts': SHELL, 'wrangler.jsonc': '{}' }, null)
  const [problem] = await problemsOf(check({ root }))
  expect(problem).toMatchObject({
    code: 'sdk-missing',
    place: { file: 'src/server/shell.sandbox.ts', line: 3 },
  })
  expect(problem?.fix).toContain('npm install @cloudflare/sandbox')
  expect(read('wrangler.jsonc')).not.toContain('latest')
})

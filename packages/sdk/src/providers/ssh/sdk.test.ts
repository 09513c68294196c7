import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { SshProvider } from './index.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

const list = `import { SshProvider } from './src/providers/ssh/index.ts'
const provider = new SshProvider({ host: '127.0.0.1', port: 1, username: 'me', privateKey: 'secret-key', acceptNoIsolation: true })
const calling = provider.list()`

/** The error of a call in a folder where the given version of ssh2 is installed, if any. */
async function run(
  installed?: { version: string; code: string },
  calling = list,
): Promise<Record<string, string>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-ssh-sdk-'))
  folders.push(folder)
  if (installed) {
    const at = path.join(folder, 'node_modules/ssh2')
    await mkdir(at, { recursive: true })
    await writeFile(
      path.join(at, 'package.json'),
      JSON.stringify({ name: 'ssh2', version: installed.version }),
    )
    await writeFile(path.join(at, 'index.js'), installed.code)
  }
  // Copies the provider to a folder where only that package is installed.
  await cp(path.resolve(import.meta.dirname, '../..'), path.join(folder, 'src'), { recursive: true })
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(
    path.join(folder, 'main.ts'),
    `${calling}
const error = await calling.catch((thrown) => thrown)
console.log(JSON.stringify({ code: error.code ?? 'none', message: error.message ?? '', hint: error.hint ?? '' }))`,
  )
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, 'main.ts')], {
    cwd: folder,
  })
  expect(stdout).not.toContain('secret-key')
  return JSON.parse(stdout)
}

const works = `exports.Client = class {}; exports.utils = { parseKey: () => new Error('no key') }`

describe('ssh2', () => {
  it('is needed only on use; the error prints the install command', async () => {
    expect(await run()).toEqual({
      code: 'sdk_missing',
      message: expect.stringContaining('ssh2'),
      hint: expect.stringContaining('npm install ssh2@1'),
    })
  })

  it('is refused in another major version', async () => {
    expect(await run({ version: '2.0.0', code: works })).toEqual({
      code: 'sdk_missing',
      message: 'ssh2 2.0.0 is installed; this provider supports 1.x.',
      hint: expect.stringContaining('npm install ssh2@1'),
    })
    expect(await run({ version: '0.8.9', code: works })).toMatchObject({ code: 'sdk_missing' })
    // A supported version is used: here it reports an invalid key.
    expect(await run({ version: '1.99.0', code: works })).toMatchObject({ code: 'unauthenticated' })
  })

  it('is refused when the module has another shape, installed or given', async () => {
    expect(await run({ version: '1.17.0', code: 'exports.Server = class {}' })).toMatchObject({
      code: 'sdk_missing',
    })
    const provider = new SshProvider({ host: 'h', username: 'me', sdk: {} as never, acceptNoIsolation: true })
    await expect(provider.list()).rejects.toMatchObject({ code: 'sdk_missing' })
  })
})

describe('@sandkasten/runner-client', () => {
  it('is needed only for a runner; the error prints the install command', async () => {
    const load = `import { loadRunnerClient } from './src/providers/ssh/runner/runner-client.ts'
const calling = loadRunnerClient()`
    expect(await run(undefined, load)).toEqual({
      code: 'sdk_missing',
      message: expect.stringContaining('@sandkasten/runner-client'),
      hint: expect.stringContaining('npm install @sandkasten/runner-client@0'),
    })
  })
})

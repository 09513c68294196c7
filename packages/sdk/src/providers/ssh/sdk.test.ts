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

/** What a program sees in whose folder that ssh2 is installed, or none. */
async function run(installed?: { version: string; code: string }): Promise<Record<string, string>> {
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
  // The provider as it is, moved to where that package is found.
  await cp(path.resolve(import.meta.dirname, '../..'), path.join(folder, 'src'), { recursive: true })
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(
    path.join(folder, 'main.ts'),
    `import { SshProvider } from './src/providers/ssh/index.ts'
const provider = new SshProvider({ host: '127.0.0.1', port: 1, username: 'me', privateKey: 'secret-key', acceptNoIsolation: true })
const error = await provider.list().catch((thrown) => thrown)
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
  it('is asked for only when it is used, with the line that installs it', async () => {
    expect(await run()).toEqual({
      code: 'sdk_missing',
      message: expect.stringContaining('ssh2'),
      hint: expect.stringContaining('npm install ssh2@1'),
    })
  })

  it('of another major version is refused, by its number', async () => {
    expect(await run({ version: '2.0.0', code: works })).toEqual({
      code: 'sdk_missing',
      message: 'ssh2 2.0.0 is installed; this provider knows 1.x.',
      hint: expect.stringContaining('npm install ssh2@1'),
    })
    expect(await run({ version: '0.8.9', code: works })).toMatchObject({ code: 'sdk_missing' })
    // One that is known is used: here it finds that the key is none.
    expect(await run({ version: '1.99.0', code: works })).toMatchObject({ code: 'unauthenticated' })
  })

  it('that is something else is refused, installed or given', async () => {
    expect(await run({ version: '1.17.0', code: 'exports.Server = class {}' })).toMatchObject({
      code: 'sdk_missing',
    })
    const provider = new SshProvider({ host: 'h', username: 'me', sdk: {} as never, acceptNoIsolation: true })
    await expect(provider.list()).rejects.toMatchObject({ code: 'sdk_missing' })
  })
})

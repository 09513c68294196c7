import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { DaytonaProvider } from './index.ts'
import type { DaytonaModule } from './sdk.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

/** The output of a program in a folder with the given packages. */
async function run(
  packages: Record<string, { version: string; code: string; bundled?: boolean }>,
): Promise<Record<string, string>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-daytona-sdk-'))
  folders.push(folder)
  for (const [name, { version, code, bundled }] of Object.entries(packages)) {
    const at = path.join(folder, 'node_modules', name)
    await mkdir(at, { recursive: true })
    const exports = { '.': './index.js', ...(bundled ? {} : { './package.json': './package.json' }) }
    await writeFile(path.join(at, 'package.json'), JSON.stringify({ name, version, type: 'module', exports }))
    await writeFile(path.join(at, 'index.js'), code)
  }
  // Copies the provider to the folder with these packages.
  await cp(path.resolve(import.meta.dirname, '../..'), path.join(folder, 'src'), { recursive: true })
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(
    path.join(folder, 'main.ts'),
    `import { DaytonaProvider } from './src/providers/daytona/index.ts'
const provider = new DaytonaProvider({ apiKey: 'secret-key' })
const error = await provider.list().catch((thrown) => thrown)
console.log(JSON.stringify({ code: error.code ?? 'none', message: error.message ?? '', hint: error.hint ?? '' }))`,
  )
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, 'main.ts')], {
    cwd: folder,
  })
  expect(stdout).not.toContain('secret-key')
  return JSON.parse(stdout)
}

const works = `export class Daytona { list() { return (async function* () {})() } async [Symbol.asyncDispose]() {} }`

describe('the vendor’s SDK', () => {
  it('is needed only on use; the error prints the install command', async () => {
    expect(await run({})).toEqual({
      code: 'sdk_missing',
      message: 'The provider “daytona” needs the package @daytona/sdk.',
      hint: expect.stringContaining('npm install @daytona/sdk@0'),
    })
  })

  it('is found under its name or its old name', async () => {
    expect((await run({ '@daytona/sdk': { version: '0.216.0', code: works } })).code).toBe('none')
    expect((await run({ '@daytonaio/sdk': { version: '0.218.0', code: works } })).code).toBe('none')
    const older = await run({ '@daytonaio/sdk': { version: '1.0.0', code: works } })
    expect(older).toMatchObject({
      code: 'sdk_missing',
      message: expect.stringContaining('@daytonaio/sdk 1.0.0'),
    })
  })

  it('is accepted without a readable manifest, as in a bundle', async () => {
    const bundled = { version: '0.216.0', code: works, bundled: true }
    expect((await run({ '@daytona/sdk': bundled })).code).toBe('none')
  })

  it('is refused in another major version, or if it does not load', async () => {
    const other = await run({ '@daytona/sdk': { version: '1.2.0', code: works } })
    expect(other).toMatchObject({ code: 'sdk_missing', message: expect.stringContaining('1.2.0') })
    const broken = await run({ '@daytona/sdk': { version: '0.216.0', code: "import 'no-such-package'" } })
    expect(broken).toMatchObject({
      code: 'sdk_missing',
      message: expect.stringContaining('does not load'),
    })
  })

  it('can be passed in, and is validated', async () => {
    class Daytona {
      async *list() {}
    }
    const sdk = { Daytona } as unknown as DaytonaModule
    for (const given of [sdk, async () => sdk])
      expect(await new DaytonaProvider({ apiKey: 'k', sdk: given }).list()).toEqual([])
    const other = new DaytonaProvider({ apiKey: 'k', sdk: {} as DaytonaModule })
    await expect(other.list()).rejects.toMatchObject({ code: 'sdk_missing' })
  })

  it('reports refused settings as a SandboxError', async () => {
    class Daytona {
      constructor() {
        throw new Error('The endpoint is ambiguous.')
      }
    }
    const provider = new DaytonaProvider({ apiKey: 'k', sdk: { Daytona } as unknown as DaytonaModule })
    await expect(provider.list()).rejects.toMatchObject({ code: 'provider_error', provider: 'daytona' })
  })

  it('needs credentials, which are checked before it is loaded', () => {
    const { DAYTONA_API_KEY: _, ...rest } = process.env
    const before = process.env
    process.env = rest
    try {
      expect(() => new DaytonaProvider()).toThrow('needs `apiKey`')
      expect(() => new DaytonaProvider({ jwtToken: 'j' })).toThrow('organizationId')
    } finally {
      process.env = before
    }
  })
})

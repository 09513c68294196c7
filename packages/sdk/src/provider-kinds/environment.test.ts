import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'

/** Packages in the place of the vendors' SDKs that print what they are given. */
const packages = {
  '@daytona/sdk': `export class Daytona {
    constructor({ apiKey, apiUrl, target }) { console.log(JSON.stringify({ apiKey, apiUrl, target })) }
    list() { return (async function* () {})() }
  }`,
  e2b: `export class Sandbox {
    static createSnapshot() {}
    static fork() {}
    static connect() {}
    static list({ apiKey, apiUrl, domain }) {
      console.log(JSON.stringify({ apiKey, apiUrl, domain }))
      return { hasNext: false, nextItems: async () => [] }
    }
  }`,
}

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

/** What the vendor's SDK gets from a provider that a process with these variables constructs. */
async function given(provider: string, settings: object, env: Record<string, string>): Promise<unknown> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-kinds-'))
  folders.push(folder)
  for (const [name, code] of Object.entries(packages)) {
    const at = path.join(folder, 'node_modules', name)
    await mkdir(at, { recursive: true })
    const manifest = {
      name,
      version: name === 'e2b' ? '2.51.0' : '0.216.0',
      type: 'module',
      main: 'index.js',
    }
    await writeFile(path.join(at, 'package.json'), JSON.stringify(manifest))
    await writeFile(path.join(at, 'index.js'), code)
  }
  const auto = path.join(import.meta.dirname, '../auto.ts')
  const main = path.join(folder, 'main.ts')
  await writeFile(
    main,
    `import { createProvider } from ${JSON.stringify(auto)}
import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(\`
  export const resolve = (name, context, next) =>
    next(name, ['@daytona/sdk', 'e2b'].includes(name) ? { ...context, parentURL: ${JSON.stringify(`file://${main}`)} } : context)
\`))
await createProvider(${JSON.stringify(provider)}, ${JSON.stringify(settings)}).list()`,
  )
  const { stdout } = await promisify(execFile)(process.execPath, [main], {
    cwd: folder,
    env: { PATH: process.env.PATH, ...env },
  })
  return JSON.parse(stdout)
}

describe('a provider from settings', () => {
  it('sends its key to the vendor, whatever the variables of the process say', async () => {
    const apiKey = 'stored'
    const daytona = { DAYTONA_API_URL: 'https://other.example/api', DAYTONA_API_KEY: 'other' }
    expect(await given('daytona', { apiKey }, daytona)).toEqual({
      apiKey,
      apiUrl: 'https://app.daytona.io/api',
    })
    const e2b = { E2B_API_URL: 'https://other.example', E2B_DOMAIN: 'other.example', E2B_API_KEY: 'other' }
    expect(await given('e2b', { apiKey }, e2b)).toEqual({
      apiKey,
      apiUrl: 'https://api.e2b.app',
      domain: 'e2b.app',
    })
  })

  it('uses the addresses of the settings', async () => {
    const e2b = { apiKey: 'stored', domain: 'mine.example' }
    expect(await given('e2b', e2b, {})).toEqual({ ...e2b, apiUrl: 'https://api.mine.example' })
    const daytona = { apiKey: 'stored', apiUrl: 'https://mine.example/api', target: 'eu' }
    expect(await given('daytona', daytona, {})).toEqual(daytona)
  })
})

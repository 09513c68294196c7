import { on } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { autoDetectProvider, type Detection, detectionTable, detectProvider } from './auto.ts'
import { SandboxError } from './errors.ts'
import { DaemonProvider } from './providers/daemon/index.ts'
import { LocalProvider } from './providers/local/index.ts'
import { SshProvider, sshOptionsOf } from './providers/ssh/index.ts'

const vercel = { VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 't', VERCEL_PROJECT_ID: 'p' }
const daemon = { SANDKASTEN_URL: 'http://127.0.0.1:8080', SANDKASTEN_API_KEY: 'sk-some-key' }
const sets = detectionTable.flatMap((row) =>
  row.variables.map((names) => [names.join(' + '), row, names] as const),
)
const setAll = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 'secret-value']))

function thrown(call: () => unknown): SandboxError {
  try {
    call()
  } catch (error) {
    if (SandboxError.is(error)) return error
    throw error
  }
  return expect.fail('Nothing was thrown.')
}

/** The next warning with this code. Warnings of earlier tests may still arrive. */
async function warningOf(code: string): Promise<Error> {
  for await (const [warning] of on(process, 'warning')) if (warning.code === code) return warning
  return expect.fail('The events ended.')
}

describe('detectProvider', () => {
  it.each(sets)('detects %s', (_, { provider, make }, names) => {
    expect(detectProvider(setAll(names))).toMatchObject({
      provider: make && provider,
      decidedBy: make ? names : [],
      alsoSet: [],
      halfSet: [],
      notIncluded: make ? [] : [provider],
    })
  })

  it('skips providers that this version does not have, and says so', () => {
    const modal = { MODAL_TOKEN_ID: 'secret-value', MODAL_TOKEN_SECRET: 'secret-value' }
    expect(detectProvider({ ...modal, VERCEL_TOKEN: 't' })).toEqual({
      provider: undefined,
      decidedBy: [],
      reason:
        'This version of @sandkasten/sdk does not have “modal”. For “vercel”, VERCEL_TEAM_ID and VERCEL_PROJECT_ID are missing.',
      alsoSet: [],
      halfSet: [{ provider: 'vercel', missing: ['VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID'] }],
      notIncluded: ['modal'],
      install: undefined,
    })
    expect(detectProvider({ ...modal, ...daemon }).reason).toBe(
      'SANDKASTEN_URL and SANDKASTEN_API_KEY are set, so the provider is “daemon”. This version of @sandkasten/sdk does not have “modal”.',
    )
    // A name is a decision: no other provider replaces it.
    expect(detectProvider({ ...daemon, SANDKASTEN_PROVIDER: 'modal' })).toMatchObject({
      provider: undefined,
      decidedBy: ['SANDKASTEN_PROVIDER'],
      reason: 'SANDKASTEN_PROVIDER says “modal”. This version of @sandkasten/sdk does not have “modal”.',
      notIncluded: ['modal'],
    })
  })

  it('checks Daytona, E2B, Vercel and a daemon first, then the others', () => {
    expect(detectionTable.map(({ provider }) => provider).slice(0, 4)).toEqual([
      'daytona',
      'e2b',
      'vercel',
      'daemon',
    ])
    for (const [index, { variables }] of detectionTable.entries()) {
      if (variables.length === 0) continue
      const env = setAll(detectionTable.slice(index).flatMap(({ variables }) => variables.flat()))
      const first = detectionTable.slice(index).find(({ make, variables }) => make && variables.length > 0)
      expect(detectProvider(env).provider).toBe(first?.provider)
    }
  })

  it('reports what decided, what else is set up, and what to install', () => {
    expect(detectProvider({ ...vercel, ...daemon, E2B_API_KEY: 'e', DAYTONA_API_KEY: 'd' })).toEqual({
      provider: 'daytona',
      decidedBy: ['DAYTONA_API_KEY'],
      reason:
        'DAYTONA_API_KEY is set, so the provider is “daytona”. “e2b”, “vercel” and “daemon” are set up too, but come later in the order; set SANDKASTEN_PROVIDER to choose one.',
      alsoSet: ['e2b', 'vercel', 'daemon'],
      halfSet: [],
      notIncluded: [],
      install: 'npm install @daytona/sdk@0',
    })
    expect(detectProvider({ ...vercel, E2B_API_KEY: ' ' })).toMatchObject({
      provider: 'vercel',
      reason: 'VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID are set, so the provider is “vercel”.',
    })
    expect(detectProvider(daemon).install).toBeUndefined()
  })

  it('names the SDK version that this package requires', () => {
    const manifest = new URL('../package.json', import.meta.url)
    const { peerDependencies } = JSON.parse(readFileSync(manifest, 'utf8'))
    const wanted = Object.entries(peerDependencies as Record<string, string>)
      .filter(([name]) => !name.startsWith('@sandkasten/'))
      .map(([name, range]) => `npm install ${name}@${/\d+/.exec(range)}`)
    const said = detectionTable
      .filter(({ make, sdk }) => make && sdk)
      .map(({ provider }) => detectProvider({ SANDKASTEN_PROVIDER: provider }).install)
    expect(said.sort()).toEqual(wanted.sort())
  })

  it('prefers variables set by hand over variables set by a platform', () => {
    const both = { ...vercel, VERCEL_OIDC_TOKEN: 'o' }
    expect(detectProvider(both).decidedBy).toEqual(['VERCEL_TOKEN', 'VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID'])
    expect(detectProvider({ VERCEL_OIDC_TOKEN: 'o', VERCEL_PROJECT_ID: 'p' }).decidedBy).toEqual([
      'VERCEL_OIDC_TOKEN',
    ])
  })

  it('lets SANDKASTEN_PROVIDER override all other variables', () => {
    expect(detectProvider({ DAYTONA_API_KEY: 'd', SANDKASTEN_PROVIDER: ' local ' })).toMatchObject({
      provider: 'local',
      decidedBy: ['SANDKASTEN_PROVIDER'],
      alsoSet: ['daytona'],
    })
  })

  it('ignores a provider with incomplete variables and reports them, also when a later provider is chosen', () => {
    const detection = detectProvider({ VERCEL_TOKEN: 'secret-value' })
    expect(detection.provider).toBeUndefined()
    expect(detection.reason).toContain('For “vercel”, VERCEL_TEAM_ID and VERCEL_PROJECT_ID are missing.')
    const half = detectProvider({ VERCEL_TOKEN: 'secret-value', VERCEL_TEAM_ID: 'x', ...daemon })
    expect(half).toMatchObject({ provider: 'daemon', halfSet: [{ provider: 'vercel' }] })
    expect(half.reason).toContain('“daemon”. For “vercel”, VERCEL_PROJECT_ID is missing.')
    expect(JSON.stringify([detection, half])).not.toContain('secret-value')
  })
})

describe('autoDetectProvider', () => {
  it('is null when nothing is set, and gives the reason', () => {
    const decisions: Detection[] = []
    expect(autoDetectProvider({ env: {}, onDecision: (decision) => decisions.push(decision) })).toBeNull()
    expect(decisions).toMatchObject([
      { decidedBy: [], reason: 'No variable that selects a provider is set.' },
    ])
  })

  it('gives the local provider only when it is named', () => {
    expect(autoDetectProvider({ env: { SANDKASTEN_PROVIDER: 'local' } })).toBeInstanceOf(LocalProvider)
  })

  it('gives the daemon provider when a daemon’s address and key are set', () => {
    expect(autoDetectProvider({ env: daemon })).toBeInstanceOf(DaemonProvider)
    expect(
      autoDetectProvider({ env: { ...daemon, SANDKASTEN_PROVIDER: 'daemon', E2B_API_KEY: 'e' } }),
    ).toBeInstanceOf(DaemonProvider)
  })

  it('trims values', async () => {
    const seen: Array<string | null> = []
    const server = createServer((request, answer) => {
      seen.push(request.headers.authorization ?? null)
      answer.end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const env = { SANDKASTEN_URL: ` http://127.0.0.1:${port}\n`, SANDKASTEN_API_KEY: ' sk-some-key\r\n' }
    await autoDetectProvider({ env })!.healthCheck()
    await new Promise((resolve) => server.close(resolve))
    expect(new Set(seen)).toEqual(new Set(['Bearer sk-some-key']))
  })

  it('returns the ssh provider only when it is named, with its host', () => {
    const named = { SANDKASTEN_PROVIDER: 'ssh' }
    expect(autoDetectProvider({ env: { SANDKASTEN_SSH_HOST: 'build@host' } })).toBeNull()
    const env = { ...named, SANDKASTEN_SSH_HOST: ' me@build.example:2222\n' }
    expect(autoDetectProvider({ env })).toBeInstanceOf(SshProvider)
    const parts = (host: string) => sshOptionsOf({ SANDKASTEN_SSH_HOST: host })
    expect(parts('build.example')).toEqual({ host: 'build.example' })
    expect(parts('me@build.example:2222')).toEqual({ host: 'build.example', username: 'me', port: 2222 })
    expect(parts('me@[::1]:2222')).toEqual({ host: '::1', username: 'me', port: 2222 })
    for (const host of [undefined, ' ', 'two words', 'me@', 'host:port', '-oProxyCommand=x'])
      expect(thrown(() => autoDetectProvider({ env: { ...named, SANDKASTEN_SSH_HOST: host } })).code).toBe(
        'invalid_argument',
      )
  })

  it('reports the missing variables of a provider that is named', () => {
    const env = { SANDKASTEN_PROVIDER: 'daemon', SANDKASTEN_API_KEY: 'secret-value' }
    const error = thrown(() => autoDetectProvider({ env }))
    expect(error).toMatchObject({
      code: 'invalid_argument',
      message: 'SANDKASTEN_PROVIDER says “daemon”. It needs SANDKASTEN_URL.',
      hint: 'Set SANDKASTEN_URL and SANDKASTEN_API_KEY.',
    })
    expect(JSON.stringify(error)).not.toContain('secret-value')
  })

  it.each(sets)('%s returns a working provider, or null and a warning', async (_, row, names) => {
    const env = { ...setAll(names), SANDKASTEN_URL: 'http://127.0.0.1:1' }
    // The token must contain its team and project.
    const claims = btoa(JSON.stringify({ owner_id: 'team', project_id: 'project' }))
    if (names.includes('VERCEL_OIDC_TOKEN')) Object.assign(env, { VERCEL_OIDC_TOKEN: `h.${claims}.s` })
    if (row.make) {
      expect(autoDetectProvider({ env })).toMatchObject({ name: row.provider })
      return
    }
    const warned = warningOf('SANDKASTEN_PROVIDER_NOT_INCLUDED')
    expect(autoDetectProvider({ env })).toBeNull()
    const warning = await warned
    expect(warning.message).toContain(`does not have “${row.provider}”`)
    expect(warning.message).not.toContain('secret-value')
  })

  it('never throws because of a provider that this version does not have', () => {
    const absent = detectionTable.filter(({ make }) => !make)
    expect(absent.length).toBeGreaterThan(0)
    for (const { provider, variables } of absent) {
      const env = setAll(variables.flat())
      expect(autoDetectProvider({ env: { ...env, ...daemon } })).toBeInstanceOf(DaemonProvider)
      expect(autoDetectProvider({ env: { ...env, ...daemon, SANDKASTEN_PROVIDER: provider } })).toBeNull()
      expect(autoDetectProvider({ env: { SANDKASTEN_PROVIDER: provider } })).toBeNull()
    }
  })

  it('rejects the name of an unknown provider', () => {
    const error = thrown(() => autoDetectProvider({ env: { SANDKASTEN_PROVIDER: 'lokal' } }))
    expect(error).toMatchObject({ code: 'invalid_argument', hint: expect.stringContaining('local') })
  })
})

import { describe, expect, it } from 'vitest'
import { createProvider, type ProviderSettings, providerKinds, settingsFromVariables } from '../auto.ts'
import { SandboxError } from '../errors.ts'
import { e2bOptionsOf } from '../providers/e2b/index.ts'
import { LocalProvider } from '../providers/local/index.ts'
import { sshOptionsOf } from '../providers/ssh/index.ts'
import { vercelOptionsOf } from '../providers/vercel/index.ts'
import { defineProviderKind } from './index.ts'

const vercel = { token: 'hidden-token', teamId: 'team', projectId: 'project' }
/** Settings with every format, each complete. */
const complete: Readonly<Record<string, ProviderSettings>> = {
  daytona: { apiKey: 'hidden-key', apiUrl: 'https://daytona.example/api', target: 'eu' },
  e2b: { apiKey: 'hidden-key', domain: 'e2b.example', template: 'base' },
  vercel,
  sprites: { token: 'hidden-token', baseUrl: 'https://sprites.example', namePrefix: 'sk-' },
  daemon: { url: 'http://127.0.0.1:8080', apiKey: 'hidden-key' },
  hopx: { apiKey: 'hidden-key', apiUrl: 'https://hopx.example', region: 'eu', template: 'base' },
  ssh: {
    host: 'me@build.example',
    port: '2222',
    privateKey: '-----BEGIN\nhidden-key\n',
    passphrase: 'hidden',
  },
  local: {},
}

function thrown(call: () => unknown): SandboxError {
  try {
    call()
  } catch (error) {
    if (SandboxError.is(error)) return error
    throw error
  }
  return expect.fail('Nothing was thrown.')
}

describe('the table', () => {
  it.each(providerKinds)('describes $provider completely', ({ provider, title, fields, alternatives }) => {
    expect(title).toMatch(/\S/)
    const names = fields.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    for (const set of alternatives!) for (const name of set) expect(names).toContain(name)
    for (const { name, flag, description } of fields) {
      expect(flag, name).toMatch(/^[a-z]+(-[a-z]+)*$/)
      expect(description, name).toMatch(/^\S.{10,90}$/)
    }
    expect(Object.keys(complete), 'settings of this test').toContain(provider)
  })

  it('marks every credential as secret, and nothing else', () => {
    const secrets = providerKinds.flatMap(({ provider, fields }) =>
      fields.filter(({ secret }) => secret).map(({ name }) => `${provider}.${name}`),
    )
    expect(secrets).toEqual([
      'daytona.apiKey',
      'daytona.jwtToken',
      'e2b.apiKey',
      'vercel.token',
      'vercel.oidcToken',
      'daemon.apiKey',
      'sprites.token',
      'hopx.apiKey',
      'ssh.privateKey',
      'ssh.passphrase',
    ])
  })

  it('derives flags and required fields', () => {
    const { fields } = providerKinds.find(({ provider }) => provider === 'daemon')!
    expect(fields).toMatchObject([
      { name: 'url', flag: 'url', required: true },
      { name: 'apiKey', flag: 'api-key', variable: 'SANDKASTEN_API_KEY', secret: true, required: true },
    ])
    const oneOf = providerKinds.find(({ provider }) => provider === 'vercel')!
    expect(oneOf.fields.filter(({ required }) => required)).toEqual([])
  })

  it.each(Object.entries(complete))('constructs %s', (provider, settings) => {
    expect(createProvider(provider, settings).name).toBe(provider)
  })

  it('has the same variables as the options that providers read from them', () => {
    const env = {
      E2B_API_KEY: 'k',
      E2B_DOMAIN: 'd',
      E2B_API_URL: 'u',
      E2B_SANDBOX_URL: 's',
      VERCEL_TOKEN: 't',
      VERCEL_TEAM_ID: 'a',
      VERCEL_PROJECT_ID: 'b',
      VERCEL_OIDC_TOKEN: 'o',
      SANDKASTEN_SSH_HOST: 'h',
    }
    const settings = (name: string, from: Record<string, string>) =>
      settingsFromVariables(providerKinds.find(({ provider }) => provider === name)!, from)
    expect(settings('e2b', env)).toEqual(e2bOptionsOf(env))
    expect(settings('vercel', env)).toEqual(vercelOptionsOf(env))
    expect(settings('vercel', { VERCEL_OIDC_TOKEN: 'o', VERCEL_TEAM_ID: 'a' })).toEqual({ oidcToken: 'o' })
    expect(settings('ssh', env)).toEqual({ host: sshOptionsOf(env).host })
  })
})

describe('settings from variables', () => {
  const kind = providerKinds.find(({ provider }) => provider === 'vercel')!

  it('are trimmed; empty ones are ignored', () => {
    expect(settingsFromVariables(kind, { VERCEL_TOKEN: ' t\n', VERCEL_TEAM_ID: ' ' })).toEqual({ token: 't' })
  })

  it('are those of the first complete alternative', () => {
    const env = { VERCEL_OIDC_TOKEN: 'o', VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 'a', VERCEL_PROJECT_ID: 'b' }
    expect(settingsFromVariables(kind, env)).toEqual({ token: 't', teamId: 'a', projectId: 'b' })
    expect(settingsFromVariables(kind, { ...env, VERCEL_TOKEN: '' })).toEqual({ oidcToken: 'o' })
  })
})

describe('createProvider', () => {
  it('names the missing fields, and both ways to give them', () => {
    const error = thrown(() => createProvider('vercel', { token: 'hidden-token' }))
    expect(error).toMatchObject({
      code: 'invalid_argument',
      message: 'The provider “vercel” needs `teamId` and `projectId`.',
      hint: 'Pass token (VERCEL_TOKEN), teamId (VERCEL_TEAM_ID) and projectId (VERCEL_PROJECT_ID); or oidcToken (VERCEL_OIDC_TOKEN).',
      details: { missing: ['teamId', 'projectId'] },
      provider: 'vercel',
    })
    expect(thrown(() => createProvider('ssh', {})).details).toEqual({ missing: ['host'] })
  })

  it('names an unknown field, with a suggestion', () => {
    expect(thrown(() => createProvider('vercel', { ...vercel, projctId: 'x' }))).toMatchObject({
      code: 'invalid_argument',
      message: 'The provider “vercel” has no option `projctId`.',
      hint: 'Did you mean `projectId`?',
    })
    expect(thrown(() => createProvider('local', { root: '/' })).code).toBe('invalid_argument')
  })

  it('refuses fields of two alternatives', () => {
    expect(thrown(() => createProvider('vercel', { ...vercel, oidcToken: 'a.b.c' }))).toMatchObject({
      message: '`oidcToken` cannot be combined with `token`, `teamId` and `projectId`.',
      details: { conflicting: ['oidcToken'] },
    })
    const organization = { apiKey: 'hidden-key', organizationId: 'org' }
    expect(thrown(() => createProvider('daytona', organization)).details).toEqual({
      conflicting: ['organizationId'],
    })
  })

  it.each<[string, string, string, Record<string, unknown>]>([
    ['a number', 'must be a string', 'daemon', { url: 'http://x', apiKey: 7 }],
    ['an empty value', 'is empty', 'daemon', { url: 'http://x', apiKey: ' ' }],
    [
      '16 KiB and a byte',
      'longer than 16384 bytes',
      'daemon',
      { url: 'http://x', apiKey: 'x'.repeat(16 * 1024 + 1) },
    ],
    [
      'a value of 16 KiB in bytes, not characters',
      'longer than 16384 bytes',
      'e2b',
      { apiKey: 'k', template: 'é'.repeat(8193) },
    ],
    ['a line break', 'control character', 'daytona', { apiKey: 'hidden-key\nX-Header: hidden' }],
    ['an escape character', 'control character', 'e2b', { apiKey: 'k', template: '\x1b[2Jhidden' }],
    ['a C1 control character', 'control character', 'e2b', { apiKey: 'k', template: '\x9bhidden' }],
    ['a NUL in a private key', 'control character', 'ssh', { host: 'me@h', privateKey: 'hidden\0' }],
    [
      'an address of another kind',
      'must begin with http',
      'daytona',
      { apiKey: 'k', apiUrl: 'file:///hidden' },
    ],
    ['no address', 'must begin with http', 'vercel', { ...vercel, baseUrl: 'hidden' }],
    [
      'credentials in an address',
      'must not contain a user name',
      'daemon',
      { url: 'https://me:hidden@host', apiKey: 'k' },
    ],
    ['a port above the range', 'is not a port number', 'ssh', { host: 'me@h', port: '65536' }],
    ['a port with a sign', 'is not a port number', 'ssh', { host: 'me@h', port: '+22' }],
    ['an option instead of a host', 'does not name a host', 'ssh', { host: '-oProxyCommand=hidden' }],
    ['a port in two places', 'both give it', 'ssh', { host: 'me@h:22', port: '22' }],
    [
      'a key and its file',
      'are both given',
      'ssh',
      { host: 'me@h', privateKey: 'hidden', privateKeyPath: '/hidden' },
    ],
    ['a prefix that Vercel would refuse', 'namePrefix', 'vercel', { ...vercel, namePrefix: 'Hidden' }],
    [
      'a token that a header cannot carry',
      'that a header cannot carry',
      'vercel',
      { ...vercel, token: 'hidden ü' },
    ],
    ['an OIDC token of nothing', 'is not a token of a Vercel project', 'vercel', { oidcToken: 'hidden' }],
    ['a secret in the place of a name', 'no setting of that name', 'daemon', { 'hidden-key': 'x' }],
    ['a prototype', 'no setting of that name', 'daemon', JSON.parse('{"__proto__":"hidden"}')],
    ['no object', 'must be an object', 'daemon', 'hidden' as never],
    ['a list', 'must be an object', 'local', ['hidden'] as never],
  ])('refuses %s without printing a value', (_, message, provider, settings) => {
    const error = thrown(() => createProvider(provider, settings as ProviderSettings))
    expect(error).toMatchObject({ code: 'invalid_argument', message: expect.stringContaining(message) })
    const shown = JSON.stringify([error, error.hints, error.stack, String(error.cause ?? '')])
    expect(shown.slice(0, 10_000).toLowerCase()).not.toContain('hidden')
  })

  it('accepts a value of 16 KiB, and a private key of several lines', () => {
    expect(createProvider('daemon', { url: 'http://x', apiKey: 'x'.repeat(16 * 1024) }).name).toBe('daemon')
    expect(createProvider('ssh', { host: 'me@[::1]:22', privateKey: 'a\r\n\tb\n' }).name).toBe('ssh')
  })

  it('replaces an error of a constructor that quotes a value', () => {
    const kind = defineProviderKind({
      provider: 'own',
      title: 'Own',
      fields: { apiKey: { secret: true, description: 'the key' } },
      make: ({ apiKey }) => {
        if (apiKey === 'valid') return new LocalProvider({ acceptNoIsolation: true })
        throw new SandboxError('unauthenticated', `“${apiKey}” is wrong`, { details: { apiKey } })
      },
    })
    expect(kind.make({ apiKey: 'valid' }).name).toBe('local')
    const error = thrown(() => kind.make({ apiKey: 'hidden "key"' }))
    expect(error).toMatchObject({ code: 'unauthenticated', hint: 'Check apiKey.', details: {} })
    expect(`${error.message}${error.stack}`).not.toContain('hidden')
  })

  it('does not print the name of an unknown provider, which may be a secret', () => {
    const error = thrown(() => createProvider('hidden', {}))
    expect(error).toMatchObject({ code: 'invalid_argument', hint: expect.stringContaining('vercel') })
    expect(error.message).not.toContain('hidden')
  })
})

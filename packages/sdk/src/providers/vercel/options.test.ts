import { describe, expect, it } from 'vitest'
import { VercelProvider } from './index.ts'
import { credentialsOf, vercelOptionsOf } from './options.ts'

const three = { token: 'opaque', teamId: 'team', projectId: 'project' }
const jwt = (claims: object) => `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.sign`
const oidc = jwt({ owner_id: 'team_ü', project_id: 'prj', exp: 4_000_000_000 })

describe('Vercel’s credentials', () => {
  it('are token, team and project, or an OIDC token that contains team and project', () => {
    expect(credentialsOf(three)).toEqual(three)
    expect(credentialsOf({ oidcToken: oidc })).toEqual({
      token: oidc,
      teamId: 'team_ü',
      projectId: 'prj',
    })
  })

  it('must be complete and of one kind; the error names missing ones', () => {
    const missing = { code: 'unauthenticated', message: expect.stringContaining('teamId, projectId') }
    expect(() => credentialsOf({ token: 't' })).toThrow(expect.objectContaining(missing))
    expect(() => credentialsOf({})).toThrow(expect.objectContaining({ code: 'unauthenticated' }))
    expect(() => credentialsOf({ ...three, oidcToken: oidc })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
  })

  it('are refused before any request if expired or malformed', () => {
    const expired = jwt({ owner_id: 'team', project_id: 'prj', exp: 1_000_000_000 })
    expect(() => credentialsOf({ oidcToken: expired })).toThrow(
      expect.objectContaining({ code: 'unauthenticated', message: expect.stringContaining('2001') }),
    )
    for (const token of ['nothing', 'a.b.c', jwt({ owner_id: 1 }), 'a\nb'])
      expect(() => credentialsOf({ oidcToken: token })).toThrow(
        expect.objectContaining({ code: 'invalid_argument' }),
      )
  })

  it('come from the environment only on request; variables set by hand take precedence', () => {
    const env = { VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 'a', VERCEL_PROJECT_ID: 'b', VERCEL_OIDC_TOKEN: 'o' }
    expect(vercelOptionsOf(env)).toEqual({ token: 't', teamId: 'a', projectId: 'b' })
    expect(vercelOptionsOf({ ...env, VERCEL_TEAM_ID: '' })).toEqual({ oidcToken: 'o' })
    expect(vercelOptionsOf({ VERCEL_TOKEN: 't' })).toEqual({ token: 't' })
  })
})

describe('options', () => {
  it('of the provider are validated in the constructor', () => {
    for (const wrong of [
      { namePrefix: 'No' },
      { namePrefix: '' },
      { baseUrl: 'localhost:1' },
      { requestTimeoutMs: 0 },
      { silenceMs: Number.NaN },
    ])
      expect(() => new VercelProvider({ ...three, ...wrong })).toThrow(
        expect.objectContaining({ code: 'invalid_argument' }),
      )
  })

  it('of create that the vendor does not support are refused before any request', async () => {
    const provider = new VercelProvider({
      ...three,
      fetch: () => Promise.reject(new Error('It asked.')),
    })
    for (const [options, code] of [
      [{ image: 'a', runtime: 'node24' }, 'invalid_argument'],
      [{ snapshotId: 's', image: 'a' }, 'invalid_argument'],
      [{ resources: { diskMb: 10 } }, 'unsupported'],
      [{ resources: { vcpus: 2, memoryMb: 1000 } }, 'unsupported'],
      [{ labels: { a: '', b: '', c: '', d: '', e: '' } }, 'invalid_argument'],
      [{ labels: { sandkasten: 'x' } }, 'invalid_argument'],
      [{ providerOptions: { colour: 'red' } }, 'invalid_argument'],
    ] as const)
      await expect(provider.create(options)).rejects.toMatchObject({ code })
  })
})

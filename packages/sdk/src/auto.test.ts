import { describe, expect, it } from 'vitest'
import { autoDetectProvider, type Detection, detectionTable, detectProvider } from './auto.ts'
import { DaemonProvider } from './providers/daemon/index.ts'
import { LocalProvider } from './providers/local/index.ts'

const vercel = { VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 't', VERCEL_PROJECT_ID: 'p' }

describe('detectProvider', () => {
  it.each(
    detectionTable.flatMap(({ provider, variables }) =>
      variables.map((names) => [names.join(' + '), provider, names] as const),
    ),
  )('%s means %s', (_, provider, names) => {
    const env = Object.fromEntries(names.map((name) => [name, 'x']))
    expect(detectProvider(env)).toMatchObject({ provider, decidedBy: names })
  })

  it('the order of the table decides where several are set', () => {
    expect(detectProvider({ ...vercel, E2B_API_KEY: 'e', DAYTONA_API_KEY: 'd' })).toEqual({
      provider: 'daytona',
      decidedBy: ['DAYTONA_API_KEY'],
      reason: 'DAYTONA_API_KEY is set, so it is “daytona”.',
    })
    expect(detectProvider({ ...vercel, E2B_API_KEY: '' }).provider).toBe('vercel')
  })

  it('SANDKASTEN_PROVIDER goes before everything', () => {
    expect(detectProvider({ DAYTONA_API_KEY: 'd', SANDKASTEN_PROVIDER: 'local' })).toMatchObject({
      provider: 'local',
      decidedBy: ['SANDKASTEN_PROVIDER'],
    })
  })

  it('half of what a provider needs is not enough, and is said', () => {
    const detection = detectProvider({ VERCEL_TOKEN: 'secret-value' })
    expect(detection.provider).toBeUndefined()
    expect(detection.reason).toContain('VERCEL_TEAM_ID and VERCEL_PROJECT_ID are missing')
    expect(JSON.stringify(detection)).not.toContain('secret-value')
  })
})

describe('autoDetectProvider', () => {
  it('is null where nothing is set, and says why', () => {
    const decisions: Detection[] = []
    expect(autoDetectProvider({ env: {}, onDecision: (decision) => decisions.push(decision) })).toBeNull()
    expect(decisions).toEqual([{ decidedBy: [], reason: 'No variable of a provider is set.' }])
  })

  it('gives the local provider only when it is named', () => {
    expect(autoDetectProvider({ env: { SANDKASTEN_PROVIDER: 'local' } })).toBeInstanceOf(LocalProvider)
  })

  it('gives the daemon provider when a daemon’s address and key are set', () => {
    const env = { SANDKASTEN_URL: 'http://127.0.0.1:8080', SANDKASTEN_API_KEY: 'sk-some-key' }
    expect(autoDetectProvider({ env })).toBeInstanceOf(DaemonProvider)
    expect(() => autoDetectProvider({ env: { SANDKASTEN_PROVIDER: 'daemon' } })).toThrow(/url/)
  })

  it('names what decided for a provider that is not there yet, never its value', () => {
    const detect = () => autoDetectProvider({ env: { DAYTONA_API_KEY: 'secret-value' } })
    expect(detect).toThrow(
      expect.objectContaining({
        code: 'unsupported',
        provider: 'daytona',
        message: expect.stringContaining('DAYTONA_API_KEY'),
      }),
    )
    try {
      detect()
    } catch (error) {
      expect(JSON.stringify(error)).not.toContain('secret-value')
    }
  })

  it('refuses a name that is no provider', () => {
    expect(() => autoDetectProvider({ env: { SANDKASTEN_PROVIDER: 'lokal' } })).toThrow(
      expect.objectContaining({ code: 'invalid_argument', hint: expect.stringContaining('local') }),
    )
  })
})

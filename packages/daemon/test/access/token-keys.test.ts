import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { exportJWK, importJWK } from 'jose'
import { afterEach, describe, expect, it } from 'vitest'
import type { Log } from '../../src/log.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import {
  audience,
  type Behaviour,
  claims,
  issuer,
  type KeyServer,
  type SigningKey,
  sign,
  signingKey,
  signSecret,
  startKeyServer,
} from './issuer.ts'

/** Where the keys of tokens come from: a URL that rotates, fails and recovers, and files. */
const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

async function keyServer(keys: readonly SigningKey[], behaviour: Behaviour = 'keys'): Promise<KeyServer> {
  const server = await startKeyServer(keys.map(({ jwk }) => jwk))
  server.behaviour = behaviour
  cleanUps.push(() => server.close())
  return server
}

async function daemonFor(jwt: object, log?: Log): Promise<TestDaemon> {
  const daemon = await startTestDaemon(
    { jwt: { create_projects: true, jwks_cooldown_seconds: 1, ...jwt } },
    log && { log },
  )
  cleanUps.push(() => daemon.stop())
  return daemon
}

const ask = (daemon: TestDaemon, key: string) => daemon.call('GET', '/v1/whoami', undefined, { key })
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('a key set at a URL', () => {
  it('rotates under load without a refused token', { timeout: 60_000 }, async () => {
    const keys = await Promise.all(Array.from({ length: 4 }, (_, at) => signingKey(`k${at}`)))
    const server = await keyServer([keys[0]!])
    const daemon = await daemonFor({ jwks_url: server.url, issuer, audience })
    let current = keys[0]!
    let ended = false
    const counts = new Map<string, number>()
    const client = async (subject: string) => {
      while (!ended) {
        const { kid } = current
        const { status } = await ask(daemon, await sign(current, claims({ subject_id: subject })))
        counts.set(`${kid} ${status}`, (counts.get(`${kid} ${status}`) ?? 0) + 1)
      }
    }
    const clients = Array.from({ length: 16 }, (_, at) => client(`user-${at}`))
    for (const [at, key] of keys.entries()) {
      // The issuer publishes the next key and signs with it at once. The previous one stays for a while.
      server.keys = keys.slice(Math.max(0, at - 1), at + 1).map(({ jwk }) => jwk)
      current = key
      await pause(1500)
    }
    ended = true
    await Promise.all(clients)
    expect([...counts.keys()].sort()).toEqual(keys.map(({ kid }) => `${kid} 200`))
    // One read at the start, and one for each new key.
    expect(server.reads).toBe(keys.length)
    // A removed key is refused after the next read.
    expect((await ask(daemon, await sign(keys[3]!))).status).toBe(200)
    expect((await ask(daemon, await sign(keys[0]!))).status).toBe(401)
  })

  it('is read at most once per cooldown, whatever key ids tokens name', { timeout: 30_000 }, async () => {
    const [key, stranger] = await Promise.all([signingKey('k'), signingKey('k')])
    const server = await keyServer([key])
    const daemon = await daemonFor({ jwks_url: server.url, issuer, audience, jwks_cooldown_seconds: 600 })
    const statuses: number[] = []
    for (let at = 0; at < 30; at += 1)
      statuses.push((await ask(daemon, await sign(stranger, claims(), { kid: `x${at}` }))).status)
    expect(server.reads).toBe(2)
    // The first was looked up. The others may be signed with a key that is newer than this read.
    expect(statuses[0]).toBe(401)
    expect(new Set(statuses.slice(1))).toEqual(new Set([503]))
    expect((await ask(daemon, await sign(key))).status).toBe(200)
  })

  it.each<[Behaviour]>([['hang'], ['slow body'], ['garbage'], ['huge'], ['error'], ['redirect']])(
    'that does not work at the start (%s) is 503 for tokens, and nothing for keys',
    { timeout: 60_000 },
    async (behaviour) => {
      const key = await signingKey('k')
      const server = await keyServer([key], behaviour)
      const warnings: string[] = []
      const silent = () => {}
      const log = {
        debug: silent,
        info: silent,
        error: silent,
        warn: (_: object, text: string) => warnings.push(text),
      }
      const startedAt = Date.now()
      const daemon = await daemonFor({ jwks_url: server.url, issuer, audience }, log as Log)
      expect(Date.now() - startedAt).toBeLessThan(4000)
      expect((await daemon.call('GET', '/v1/whoami')).status).toBe(200)
      const memory = process.memoryUsage().rss
      const token = await sign(key)
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(daemon, token)))
      for (const { status, body, headers } of answers) {
        expect(status).toBe(503)
        expect(body).toMatchObject({ code: 'unavailable', retryable: true })
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
      }
      expect(warnings.filter((text) => text.includes('keys for tokens'))).toHaveLength(1)
      if (behaviour === 'huge') {
        // The reader leaves; what the sockets hold was written.
        expect(server.bytes).toBeLessThan(64 * 2 ** 20)
        expect(process.memoryUsage().rss - memory).toBeLessThan(128 * 2 ** 20)
      }
      server.behaviour = 'keys'
      await expect.poll(async () => (await ask(daemon, token)).status, { timeout: 15_000 }).toBe(200)
      // Nothing is left of the responses that were given up.
      await expect.poll(() => server.open).toBe(0)
    },
  )

  it('keeps its keys while the URL does not answer, for a limited time', { timeout: 60_000 }, async () => {
    const [key, next] = await Promise.all([signingKey('k'), signingKey('next')])
    const server = await keyServer([key])
    const settings = { jwks_url: server.url, issuer, audience, jwks_refresh_seconds: 1 }
    const daemon = await daemonFor({ ...settings, jwks_max_stale_seconds: 3 })
    const token = await sign(key)
    expect((await ask(daemon, token)).status).toBe(200)
    server.behaviour = 'error'
    const reads = server.reads
    await expect.poll(() => server.reads, { timeout: 5000 }).toBeGreaterThan(reads)
    expect((await ask(daemon, token)).status).toBe(200)
    // A key that was not read yet may be valid.
    expect((await ask(daemon, await sign(next))).status).toBe(503)
    await expect.poll(async () => (await ask(daemon, token)).status, { timeout: 8000 }).toBe(503)
    server.behaviour = 'keys'
    await expect.poll(async () => (await ask(daemon, token)).status, { timeout: 8000 }).toBe(200)
  })

  it('never adds an algorithm that is not configured', async () => {
    const key = await signingKey('k', 'RS256')
    // A key set need not name algorithms, and the same RSA key can sign with PS256.
    const { alg: _, ...jwk } = key.jwk
    const server = await startKeyServer([jwk])
    cleanUps.push(() => server.close())
    const privateKey = (await importJWK(
      { ...(await exportJWK(key.privateKey)) },
      'PS256',
    )) as SigningKey['privateKey']
    const token = await sign({ ...key, alg: 'PS256', privateKey })
    const settings = { jwks_url: server.url, issuer, audience }
    expect((await ask(await daemonFor({ ...settings, algorithms: ['PS256'] }), token)).status).toBe(200)
    const daemon = await daemonFor(settings)
    expect((await ask(daemon, token)).status).toBe(401)
    expect((await ask(daemon, await sign(key))).status).toBe(200)
  })

  it('shows the age of its keys in the metrics', async () => {
    const server = await keyServer([await signingKey('k')])
    const daemon = await daemonFor({ jwks_url: server.url, issuer, audience })
    await expect
      .poll(async () => (await daemon.call('GET', '/metrics')).body)
      .toMatch(/sandkasten_token_keys_age_seconds \d/)
  })
})

describe('keys in a file', () => {
  async function folder(): Promise<string> {
    const made = await mkdtemp(path.join(tmpdir(), 'sk-jwt-'))
    cleanUps.push(() => rm(made, { recursive: true, force: true }))
    return made
  }

  it('are read again when the file changes: a key set', { timeout: 20_000 }, async () => {
    const [one, two] = await Promise.all([signingKey('one', 'RS256'), signingKey('two')])
    const file = path.join(await folder(), 'keys.json')
    const write = (key: SigningKey) => writeFile(file, JSON.stringify({ keys: [key.jwk] }))
    await write(one)
    const daemon = await daemonFor({ jwks_file: file, issuer, audience })
    expect((await ask(daemon, await sign(one))).status).toBe(200)
    await write(two)
    await expect.poll(async () => (await ask(daemon, await sign(two))).status, { timeout: 5000 }).toBe(200)
    expect((await ask(daemon, await sign(one))).status).not.toBe(200)
    // A half-written file keeps the keys.
    await writeFile(file, '{"keys": [')
    await pause(1500)
    expect((await ask(daemon, await sign(two))).status).toBe(200)
  })

  it('never act as secrets: a symmetric key in a key set is ignored', async () => {
    const secret = 'x'.repeat(40)
    const key = await signingKey('k')
    const file = path.join(await folder(), 'keys.json')
    const oct = { kty: 'oct', kid: 'o', alg: 'HS256', k: Buffer.from(secret).toString('base64url') }
    await writeFile(file, JSON.stringify({ keys: [key.jwk, oct] }))
    const daemon = await daemonFor({ jwks_file: file, issuer, audience })
    expect((await ask(daemon, await signSecret(secret, claims(), { kid: 'o' }))).status).toBe(401)
  })

  it('are read again when the file changes: secrets, several at a time', { timeout: 20_000 }, async () => {
    const file = path.join(await folder(), 'secrets')
    const [one, two] = ['1'.repeat(32), '2'.repeat(32)]
    await writeFile(file, `${one}\n`)
    const daemon = await daemonFor({ secret_file: file })
    const status = async (secret: string) => (await ask(daemon, await signSecret(secret))).status
    expect([await status(one), await status(two)]).toEqual([200, 401])
    await writeFile(file, `${one}\n${two}\n`)
    await expect.poll(() => status(two), { timeout: 5000 }).toBe(200)
    expect(await status(one)).toBe(200)
    await writeFile(file, `${two}\n`)
    await expect.poll(() => status(one), { timeout: 5000 }).toBe(401)
  })

  it.each([
    ['secret_file', 'too-short\n', /32 bytes/],
    ['secret_file', '', /32 bytes/],
    ['secret_file', undefined, /cannot be read/],
    ['jwks_file', '{}', /cannot be read/],
    ['jwks_file', '{"keys": []}', /cannot be read/],
    ['jwks_file', undefined, /cannot be read/],
  ])('that cannot be used stop the start: %s with %j', async (name, content, message) => {
    const file = path.join(await folder(), 'file')
    if (content !== undefined) await writeFile(file, content)
    const error = await daemonFor({ [name]: file, issuer, audience }).catch((error) => error)
    expect(error.code).toBe('invalid_argument')
    expect(error.message).toMatch(message)
  })
})

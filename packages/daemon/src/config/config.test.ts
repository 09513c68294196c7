import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configOf, loadConfig } from './config.ts'
import { showConfig } from './show.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-config-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const write = (text: string) => writeFile(path.join(folder, 'sandkasten.yaml'), text)
const load = (env: Record<string, string> = {}) => loadConfig({ cwd: folder, env })

describe('configuration', () => {
  it('accepts the file of the first plan unchanged', async () => {
    await write(`
listen: "127.0.0.1:8080"
api_key: "sk-sandbox-..."          # single key for MVP
default_image: "sandbox-runtime:base"
allowed_images:
  - "sandbox-runtime:base"
  - "sandbox-runtime:python"
  - "sandbox-runtime:node"
db_path: "./sandkasten.db"
session_ttl_seconds: 1800
defaults:
  cpu_limit: 1.0
  mem_limit_mb: 512
  pids_limit: 256
  max_exec_timeout_ms: 120000
  network_mode: "none"
  readonly_rootfs: true
`)
    const config = await load()
    expect(config).toMatchObject({
      listen: { host: '127.0.0.1', port: 8080 },
      default_image: 'sandbox-runtime:base',
      db_path: path.join(folder, 'sandkasten.db'),
      defaults: { cpu_limit: 1, memory_mb: 512, max_exec_timeout_ms: 120_000, network_mode: 'none' },
    })
    expect(showConfig(config)).not.toContain('sk-sandbox')
  })

  it('lets the environment win, with text, numbers and lists', async () => {
    await write('session_ttl_seconds: 10\nlog_level: warn')
    const config = await load({
      SANDKASTEN_SESSION_TTL_SECONDS: '60',
      SANDKASTEN_DEFAULTS_MEM_LIMIT_MB: '128',
      SANDKASTEN_ALLOWED_IMAGES: 'host, other',
      SANDKASTEN_API_KEY: '1234567890',
      SANDKASTEN_HOME: folder,
    })
    expect(config).toMatchObject({
      session_ttl_seconds: 60,
      log_level: 'warn',
      defaults: { memory_mb: 128 },
      allowed_images: ['host', 'other'],
      api_key: '1234567890',
      data_dir: folder,
    })
  })

  it('accepts the former name of memory_mb', async () => {
    await write('defaults: { mem_limit_mb: 64 }\npool: [{ size: 1, mem_limit_mb: 32 }]')
    expect(await load()).toMatchObject({ defaults: { memory_mb: 64 }, pool: [{ memory_mb: 32 }] })
    expect(await load({ SANDKASTEN_MAX_MEM_LIMIT_MB: '128' })).toMatchObject({ max: { memory_mb: 128 } })
    expect((await load({ SANDKASTEN_DEFAULTS_MEMORY_MB: '96' })).defaults.memory_mb).toBe(96)
  })

  it.each([
    ['sesion_ttl_seconds: 5', /has no key “sesion_ttl_seconds”/, /session_ttl_seconds/],
    ['defaults:\n  memory: 5', /has no key “memory”/, /memory_mb/],
    ['max:\n  memory_mb: 5\n  mem_limit_mb: 5', /has no key “mem_limit_mb”/, /memory_mb/],
    ['listen: "8080"', /not an address/, /127\.0\.0\.1:8080/],
    ['listen: "0.0.0.0:8080"', /other machines can reach/, /behind_tls/],
    ['listen: "0.0.0.0:8080"\nbehind_tls: true\napi_key: short-key', /too short/, /24/],
    ['default_image: a\nallowed_images: [b]', /not in allowed_images/, /allowed_images/],
    ['session_ttl_seconds: soon', /session_ttl_seconds/, /session_ttl_seconds/],
    ['defaults: { readonly_rootfs: false }', /read-only/, /readonly_rootfs/],
    ['isolator: process\nruntime: runc', /no runtime/, /oci/],
    ['docker: { host: /run/docker.sock }', /DOCKER_HOST/, /docker\.host/],
    ['listen: [', /not YAML/, /Correct/],
    ['jwt: {}', /no key/, /jwks_url/],
    ['jwt: { secret: too-short }', /32 bytes/, /jwt\.secret/],
    ['jwt: { secret_file: a, jwks_file: b }', /secret_file and jwks_file/, /one of/],
    ['jwt: { jwks_file: a, audience: b }', /issuer/, /claim/],
    ['jwt: { jwks_file: a, issuer: b }', /audience/, /claim/],
    ['jwt: { jwks_url: "http://login.example.com/keys" }', /https/, /jwks_url/],
    ['jwt: { jwks_url: "https://user:pass@login.example.com/" }', /user name/, /jwks_url/],
    ['jwt: { jwks_url: "file:///etc/passwd" }', /https/, /jwks_url/],
    ['jwt: { jwks_file: a, algorithms: [HS256] }', /algorithms/, /algorithms/],
    ['jwt: { jwks_file: a, algorithms: [none] }', /algorithms/, /algorithms/],
    ['api_key: eyJhbGciOiJ.abc.def\njwt: { secret_file: a }', /form of a token/, /another/],
  ])('refuses %j and says what to change', async (text, message, hint) => {
    await write(text)
    const error = await load().catch((error) => error)
    expect(error.code).toBe('invalid_argument')
    expect(error.message).toMatch(message)
    expect(error.hint).toMatch(hint)
  })

  it('refuses a misspelt variable', async () => {
    await expect(load({ SANDKASTEN_LOG_LEVL: 'warn' })).rejects.toMatchObject({
      hint: 'Did you mean SANDKASTEN_LOG_LEVEL?',
    })
  })

  it('masks passwords', () => {
    const shown = showConfig(configOf({ db_url: 'postgres://me:hunter2@localhost/x', api_key: 'abcdefgh12' }))
    expect(shown).not.toMatch(/hunter2|abcdefgh12/)
    expect(shown).toContain('postgres://me:')
  })

  it('reads a secret for tokens from the environment, and never shows it', async () => {
    const secret = 'a-secret-of-more-than-32-characters'
    const config = await load({ SANDKASTEN_JWT_SECRET: secret, SANDKASTEN_JWT_CREATE_PROJECTS: 'true' })
    expect(config.jwt).toMatchObject({ secret, create_projects: true, project_claim: 'tenant_id' })
    expect(showConfig(config)).not.toContain(secret)
    const short = await load({ SANDKASTEN_JWT_SECRET: 'short-secret' }).catch((error) => error)
    expect(JSON.stringify(short) + short.message).not.toContain('short-secret')
  })

  it('fails when the requested file is missing', async () => {
    await expect(loadConfig({ cwd: folder, env: {}, file: 'other.yaml' })).rejects.toThrow(/cannot be read/)
  })
})

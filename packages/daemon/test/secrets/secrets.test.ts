import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { sql } from 'kysely'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { DatabaseLocation } from '../../../database/src/index.ts'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

const value = 'sk-value-of-a-secret-83c1'
const later = 'sk-later-value-of-it-19fe'

describeOnEachDatabase('secrets', (newDatabase, kind) => {
  let daemon: TestDaemon
  let location: DatabaseLocation
  let folder: string
  let other: string
  let projectId: string
  let logged = ''

  beforeAll(async () => {
    location = await newDatabase()
    folder = mkdtempSync(path.join(tmpdir(), 'sk-secrets-'))
    const store =
      'url' in location ? { db_url: location.url } : { db_path: path.join(folder, 'sandkasten.db') }
    const log = pino(
      { level: 'trace' },
      {
        write(line: string) {
          logged += line
        },
      },
    )
    daemon = await startTestDaemon(store, { log: log as never, env: {} })
    ;({ id: projectId, key: other } = await tenant('other'))
  })
  afterAll(async () => {
    await daemon?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  async function tenant(name: string): Promise<{ id: string; key: string }> {
    const { id } = (await daemon.call('POST', '/v1/projects', { name })).body
    const made = await daemon.call('POST', '/v1/keys', { name, scopes: ['admin'], project_id: id })
    return { id, key: made.body.key }
  }
  const put = (name: string, body: unknown, key?: string) =>
    daemon.call('PUT', `/v1/secrets/${name}`, body, { key })
  const names = async (key?: string) =>
    (await daemon.call('GET', '/v1/secrets', undefined, { key })).body.secrets.map(
      ({ name }: { name: string }) => name,
    )
  const valuesOf = (project: string, ...wanted: string[]) => daemon.context.secrets.values(project, wanted)
  const keyOf = async (...scopes: string[]) =>
    (await daemon.call('POST', '/v1/keys', { name: 'k', scopes })).body.key as string

  it('are listed by name and version, and replaced in place', async () => {
    const first = await put('github', { value })
    expect(first).toMatchObject({ status: 200, body: { name: 'github', version: 1, hosts: null } })
    const second = await put('github', { value: later, hosts: ['api.github.com', '*.github.com'] })
    expect(second.body).toEqual({
      name: 'github',
      version: 2,
      hosts: ['api.github.com', '*.github.com'],
      created_at: first.body.created_at,
      updated_at: expect.any(String),
    })
    expect((await daemon.call('GET', '/v1/secrets')).body).toEqual({ secrets: [second.body] })
    expect(await valuesOf('default', 'github', 'absent')).toEqual({ github: later })
  })

  it('of one project are unknown to another, which may use the same name', async () => {
    expect(await names(other)).toEqual([])
    expect(await daemon.call('DELETE', '/v1/secrets/github', undefined, { key: other })).toMatchObject({
      status: 404,
    })
    expect((await put('github', { value: 'of-the-other' }, other)).body.version).toBe(1)
    expect(await valuesOf('default', 'github')).toEqual({ github: later })
    expect(await valuesOf(projectId, 'github')).toEqual({ github: 'of-the-other' })
    // A row that someone moves in the database to another project does not open there.
    const { db } = daemon.context.store
    await sql`update secrets set name = 'moved', project_id = ${projectId} where project_id = 'default'`.execute(
      db,
    )
    await expect(valuesOf(projectId, 'moved')).rejects.toMatchObject({ code: 'unavailable' })
    await sql`update secrets set name = 'github', project_id = 'default' where name = 'moved'`.execute(db)
    expect(await valuesOf('default', 'github')).toEqual({ github: later })
  })

  it('are set with the scope secrets, which allows nothing else', async () => {
    const [exec, secrets] = [await keyOf('exec'), await keyOf('secrets')]
    expect((await put('scoped', { value }, exec)).status).toBe(403)
    expect((await put('scoped', { value }, secrets)).status).toBe(200)
    expect((await daemon.call('GET', '/v1/sessions', undefined, { key: secrets })).status).toBe(403)
    expect(await names(exec)).toContain('scoped')
    expect((await daemon.call('DELETE', '/v1/secrets/scoped', undefined, { key: secrets })).status).toBe(200)
    expect(await names()).not.toContain('scoped')
    expect((await daemon.call('POST', '/v1/secret-key/rotate', {}, { key: other })).status).toBe(403)
  })

  it('have limits, whose errors do not quote the value', async () => {
    const refused = [
      await put('a b', { value }),
      await put('x'.repeat(65), { value }),
      await put('lines', { value: `${value}\n${value}` }),
      await put('empty', { value: '' }),
      await put('short', { value: 'short' }),
      await put('tab', { value: `${value}\t${value}` }),
      await put('long', { value: value.repeat(3000) }),
      await put('number', { value: 7, [value]: 1 }),
      await put('hosts', { value, hosts: ['https://example.com'] }),
    ]
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400, 400, 413, 400, 400])
    expect(JSON.stringify(refused.filter((_, at) => at !== 7))).not.toContain('sk-value')
    const { key } = await tenant('many')
    for (let at = 0; at < 200; at += 1) expect((await put(`s${at}`, { value }, key)).status).toBe(200)
    expect(await put('one-more', { value }, key)).toMatchObject({
      status: 429,
      body: { code: 'quota_exceeded', details: { limit: 200 } },
    })
    expect((await put('s0', { value }, key)).body.version).toBe(2)
  })

  it('count all versions of writes at the same time', async () => {
    const written = await Promise.all(
      Array.from({ length: 12 }, (_, at) => put('busy', { value: `value-${at}` })),
    )
    const last = written.toSorted((a, b) => a.body.version - b.body.version)
    expect(last.map(({ body }) => body.version)).toEqual(Array.from({ length: 12 }, (_, at) => at + 1))
    expect(await valuesOf('default', 'busy')).toEqual({ busy: `value-${written.indexOf(last.at(-1)!)}` })
  })

  it('get a new key, also while they are written', async () => {
    const before = await valuesOf('default', 'github', 'busy')
    const rotations = [1, 2].map(() => daemon.call('POST', '/v1/secret-key/rotate', {}))
    const writes = Array.from({ length: 8 }, (_, at) => put(`while-${at}`, { value: `write-${at}` }))
    const [first, second] = await Promise.all(rotations)
    expect([first!.status, second!.status]).toEqual([200, 200])
    for (const { status } of await Promise.all(writes)) expect(status).toBe(200)
    expect(await valuesOf('default', 'github', 'busy')).toEqual(before)
    expect(await valuesOf('default', 'while-3')).toEqual({ 'while-3': 'write-3' })
    const keys = JSON.parse(readFileSync(path.join(daemon.folder, 'secrets.key'), 'utf8')).keys
    expect(keys).toHaveLength(1)
    const used = await daemon.context.store.sealed.keyId()
    expect([first!.body.key_id, second!.body.key_id]).toContain(used)
    await daemon.restart()
    expect(await valuesOf('default', 'github', 'busy')).toEqual(before)
  })

  it('appear in no answer, log line, event, audit entry or file', async () => {
    const answers = [
      await daemon.call('GET', '/v1/secrets'),
      await daemon.call('GET', '/v1/events?limit=1000&after=0'),
      await daemon.call('GET', '/v1/audit?limit=1000'),
      await daemon.call('GET', '/metrics'),
    ]
    expect(JSON.stringify(answers[1])).toContain('secret.set')
    expect(JSON.stringify(answers[2])).toContain('putSecret')
    expect(logged).toContain('putSecret')
    const stored = await sql<Record<string, unknown>>`select * from secrets`.execute(daemon.context.store.db)
    const files = [daemon.folder, folder].flatMap(filesIn)
    if (kind === 'sqlite') expect(files.map((file) => path.basename(file))).toContain('sandkasten.db-wal')
    const texts = [
      JSON.stringify(answers),
      JSON.stringify(stored.rows),
      logged,
      ...files.map((file) => readFileSync(file, 'latin1')),
    ]
    for (const text of texts)
      for (const secret of [value, later, 'of-the-other']) expect(text).not.toContain(secret)
  })

  it('need their key: without it, secrets fail and the rest works', async () => {
    const file = path.join(daemon.folder, 'secrets.key')
    const key = readFileSync(file)
    rmSync(file)
    await daemon.restart()
    expect(await put('github', { value })).toMatchObject({ status: 503, body: { code: 'unavailable' } })
    expect(readdirSync(daemon.folder)).not.toContain('secrets.key')
    expect((await daemon.call('GET', '/v1/sessions')).status).toBe(200)
    expect(await names()).toContain('github')
    writeFileSync(file, key, { mode: 0o600 })
    expect((await put('github', { value: later })).status).toBe(200)
  })
})

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
}

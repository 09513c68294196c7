import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FrontRecords, recordLimits } from '../../src/fronts/records.ts'
import { requestLimits } from '../../src/sessions/index.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon({ accept_no_isolation: true })
})
afterAll(() => daemon?.stop())

const create = (body: object, headers?: Record<string, string>) =>
  daemon.call('POST', '/v1/sessions', body, { headers })

/** `count` labels whose JSON takes `bytes` bytes in all. */
function labelsOf(count: number, bytes: number): Record<string, string> {
  const keys = Array.from({ length: count }, (_, at) => `k${String(at).padStart(3, '0')}`)
  const empty = JSON.stringify(Object.fromEntries(keys.map((key) => [key, '']))).length
  let left = bytes - empty
  return Object.fromEntries(
    keys.map((key) => {
      const length = Math.min(left, requestLimits.labelValueChars)
      left -= length
      return [key, 'v'.repeat(length)]
    }),
  )
}

function envOf(count: number, nameChars: number, bytes = 0): Record<string, string> {
  const names = Array.from({ length: count }, (_, at) => String(at).padStart(nameChars, 'A'))
  const value = 'v'.repeat(Math.max(0, Math.floor((bytes - count * nameChars) / count)))
  return Object.fromEntries(names.map((name) => [name, value]))
}

const { labels, labelsBytes, envVars, envBytes } = requestLimits

describe('metadata of a session is limited', () => {
  it.each<[string, object]>([
    ['as many labels as allowed', { labels: labelsOf(labels, 5000) }],
    ['as many bytes of labels as allowed', { labels: labelsOf(labels, labelsBytes) }],
    ['as many variables as allowed', { env: envOf(envVars, 10) }],
    ['as many bytes of environment as allowed', { env: envOf(8, 100, envBytes) }],
  ])('%s: the session is created', async (_, body) => {
    const { status, body: session } = await create(body)
    expect(status).toBe(201)
    await daemon.call('DELETE', `/v1/sessions/${session.id}`)
  })

  it.each<[string, object, string]>([
    ['too many labels', { labels: labelsOf(labels + 1, 5000) }, 'labels'],
    ['too many bytes of labels', { labels: labelsOf(labels, labelsBytes + 1) }, 'labels'],
    // Six bytes each in JSON: what counts is what is stored.
    [
      'labels that grow when they are encoded',
      { labels: Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`k${at}`, '\u0001'.repeat(900)])) },
      'labels',
    ],
    ['too many variables', { env: envOf(envVars + 1, 10) }, 'env'],
    ['names of variables that are too long together', { env: envOf(200, 200) }, 'env'],
    ['too large an environment', { env: envOf(8, 100, envBytes + 100) }, 'env'],
    ['too long a name', { name: 'n'.repeat(201) }, 'name'],
  ])('%s: 400, and the message names the field', async (_, body, field) => {
    const answer = await create(body)
    expect(answer.status).toBe(400)
    expect(answer.body.detail).toContain(field)
  })

  it('labels cannot grow beyond the limit by changing them', async () => {
    const id = await daemon.session({ labels: labelsOf(labels, 5000) })
    const added = await daemon.call('PATCH', `/v1/sessions/${id}`, { labels: { one: 'more' } })
    expect(added.status).toBe(400)
    const replaced = await daemon.call('PATCH', `/v1/sessions/${id}`, { labels: { k000: 'other' } })
    expect(replaced.status).toBe(200)
    const swapped = await daemon.call('PATCH', `/v1/sessions/${id}`, { labels: { k000: null, one: 'more' } })
    expect(swapped.status).toBe(200)
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })

  it('the environment and the arguments of a command are limited', async () => {
    const id = await daemon.session()
    const run = (body: object) => daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true', ...body })
    expect((await run({ env: envOf(envVars + 1, 10) })).status).toBe(400)
    expect((await run({ env: envOf(8, 100, envBytes + 100) })).status).toBe(400)
    const args = Array.from({ length: 40 }, () => 'a'.repeat(60_000))
    expect((await run({ args })).status).toBe(400)
    expect((await run({ args, exec_id: 'too-many' })).status).toBe(400)
    expect((await run({ args: args.slice(0, 10) })).status).toBe(200)
    const terminal = (body: object) => daemon.call('POST', `/v1/sessions/${id}/terminals`, body)
    expect((await terminal({ cmd: 'true', args })).status).toBe(400)
    expect((await terminal({ env: envOf(envVars + 1, 10) })).status).toBe(400)
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })

  it('a page of sessions is limited in bytes, and its cursor continues it', async () => {
    const ids: string[] = []
    for (let count = 0; count < 80; count += 1)
      ids.push(await daemon.session({ labels: labelsOf(labels, labelsBytes) }))
    const found: string[] = []
    let pages = 0
    for (let cursor = ''; ; ) {
      const query = new URLSearchParams({ limit: '1000', status: 'running', ...(cursor ? { cursor } : {}) })
      const { body, status } = await daemon.call('GET', `/v1/sessions?${query}`)
      expect(status).toBe(200)
      expect(JSON.stringify(body).length).toBeLessThan(1_200_000)
      found.push(...body.sessions.map(({ id }: { id: string }) => id))
      pages += 1
      if (!body.next_cursor) break
      cursor = body.next_cursor
    }
    expect(pages).toBeGreaterThan(1)
    expect(found.sort()).toEqual(ids.sort())
    for (const id of ids) await daemon.call('DELETE', `/v1/sessions/${id}`)
  })
})

describe('counts of objects are limited', () => {
  it('shells, terminals and open ports of a session', async () => {
    const id = await daemon.session()
    const { context } = daemon
    const { open } = await daemon.daemon.sessions.use.take(operator, id).then((used) => {
      used.release()
      return used
    })
    const shell = (name: string) =>
      daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true', shell: name })
    expect((await shell('one')).status).toBe(200)
    const known = open.shells.get('one')!
    for (let at = open.shells.size; at < requestLimits.shells; at += 1) open.shells.set(`fill-${at}`, known)
    expect((await shell('one-too-many')).status).toBe(429)
    expect((await shell('one')).status).toBe(200)
    for (let port = 1; port <= requestLimits.openPorts; port += 1)
      await context.store.ports.put({ ...portRow, session_id: id, port })
    const port = (number: number) => daemon.call('POST', `/v1/sessions/${id}/ports`, { port: number })
    expect((await port(9999)).status).toBe(429)
    expect((await port(1)).status).toBeLessThan(300)
    for (let at = 0; at < requestLimits.terminals; at += 1)
      await context.store.execs.insert({ ...terminalRow, session_id: id, exec_id: `t-${at}` })
    expect((await daemon.call('POST', `/v1/sessions/${id}/terminals`, {})).status).toBe(429)
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })

  it('keys of a project: old unusable keys are deleted, and too many usable ones are refused', async () => {
    const { keys } = daemon.context.store
    const project = (await daemon.call('POST', '/v1/projects', { name: 'many-keys' })).body.id
    const row = (at: number, revoked: boolean) => ({
      id: `k${at}${revoked ? 'r' : ''}`,
      project_id: project,
      name: 'n',
      hash: `${at}${revoked}`,
      scopes: 'read',
      created_at: at,
      expires_at: null,
      revoked_at: revoked ? at : null,
      subject: null,
    })
    for (let at = 0; at < 20; at += 1) expect(await keys.insert(row(at, true), 10)).toBe(true)
    expect((await keys.list(project)).length).toBeLessThanOrEqual(11)
    for (let at = 100; at < 110; at += 1) expect(await keys.insert(row(at, false), 10)).toBe(true)
    expect(await keys.insert(row(110, false), 10)).toBe(false)
    const many = { name: 'n', project_id: project, scopes: Array.from({ length: 50 }, () => 'read') }
    expect((await daemon.call('POST', '/v1/keys', many)).status).toBe(400)
  })

  it('records of a front', async () => {
    const id = await daemon.session()
    const records = new FrontRecords(daemon.context.store.fronts, 'e2b')
    for (let at = 0; at < recordLimits.perSession; at += 1)
      await records.put('default', 'file', `f${at}`, {}, id)
    await expect(records.put('default', 'file', 'one more', {}, id)).rejects.toMatchObject({
      code: 'quota_exceeded',
    })
    await records.put('default', 'file', 'f0', { again: true }, id)
    await expect(
      records.put('default', 'other', 'x', 'x'.repeat(recordLimits.dataBytes), id),
    ).rejects.toMatchObject({ code: 'too_large' })
    for (let at = 0; at < recordLimits.perSession + 5; at += 1)
      await records.append('default', 'tag', `t${String(at).padStart(5, '0')}`, at, id)
    const tags = await records.list<number>('default', 'tag', { sessionId: id })
    expect(tags.length).toBe(recordLimits.perSession)
    expect(tags.at(-1)?.data).toBe(recordLimits.perSession + 4)
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })
})

const operator = { projectId: 'default', keyId: 'test', scopes: ['admin' as const], requestId: 'test' }
const portRow = {
  visibility: 'private' as const,
  wake: 0,
  token_hash: null,
  generation: 'g',
  created_at: 0,
}
const terminalRow = {
  project_id: 'default',
  bytes: 0,
  kind: 'terminal' as const,
  status: 'running' as const,
  detached: 1,
  incarnation: 1,
  shell: null,
  command: '{}',
  fingerprint: '',
  created_at: 0,
  ended_at: null,
  result: null,
  events: null,
}

describe('an idempotency key in the header', () => {
  it('is refused when it is too long', async () => {
    const long = 'k'.repeat(201)
    const refused = await create({}, { 'idempotency-key': `${long}a` })
    expect(refused.status).toBe(400)
    expect(refused.body.detail).toContain('Idempotency-Key')
    const accepted = await create({}, { 'idempotency-key': 'k'.repeat(200) })
    expect(accepted.status).toBe(201)
    await daemon.call('DELETE', `/v1/sessions/${accepted.body.id}`)
  })
  it('is refused when it differs from the one in the body', async () => {
    const answer = await create({ idempotency_key: 'one' }, { 'idempotency-key': 'two' })
    expect(answer.status).toBe(400)
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { all, eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon()
})
afterAll(() => daemon?.stop())

describe('the seven routes of the first plan', () => {
  it('create, get, exec, write, read, list and destroy', async () => {
    const created = await daemon.call('POST', '/v1/sessions', {})
    expect(created.status).toBe(201)
    const { id } = created.body
    expect(created.body).toMatchObject({
      status: 'running',
      image: 'host',
      incarnation: 1,
      ttl_seconds: 1800,
    })
    const base = `/v1/sessions/${id}`
    expect((await daemon.call('GET', base)).body.id).toBe(id)

    const exec = await daemon.call('POST', `${base}/exec`, {
      cmd: 'mkdir -p d && cd d && export A=1; echo hi; (exit 3)',
    })
    expect(exec.body).toMatchObject({ exit_code: 3, output: 'hi\n', truncated: false, timed_out: false })
    expect(exec.body.cwd).toMatch(/\/d$/)
    expect(exec.body.duration_ms).toBeGreaterThan(0)
    const again = await daemon.call('POST', `${base}/exec`, { cmd: 'echo $A; pwd' })
    expect(again.body.output).toBe(`1\n${exec.body.cwd}\n`)
    expect((await daemon.call('GET', base)).body.cwd).toBe(exec.body.cwd)

    const content_base64 = Buffer.from([0, 255, 10, 200]).toString('base64')
    expect((await daemon.call('POST', `${base}/fs/write`, { path: 'a/b.bin', content_base64 })).body).toEqual(
      { ok: true },
    )
    const read = await daemon.call('GET', `${base}/fs/read?path=a/b.bin`)
    expect(read.body).toEqual({ path: 'a/b.bin', content_base64, size: 4, truncated: false })
    const part = await daemon.call('GET', `${base}/fs/read?path=a/b.bin&max_bytes=2`)
    expect(part.body).toMatchObject({ size: 4, truncated: true })

    expect(
      (await daemon.call('GET', '/v1/sessions')).body.sessions.map((one: { id: string }) => one.id),
    ).toContain(id)
    expect((await daemon.call('DELETE', base)).body).toMatchObject({
      destroyed: true,
      session: { status: 'destroyed' },
    })
    expect((await daemon.call('DELETE', base)).body).toMatchObject({ destroyed: false })
    expect((await daemon.call('POST', `${base}/exec`, { cmd: 'true' })).body).toMatchObject({
      code: 'gone',
      status: 410,
    })
  })
})

describe('run', () => {
  it('keeps streams apart, passes arguments as they are and feeds stdin', async () => {
    const id = await daemon.session()
    const run = (body: object) => daemon.call('POST', `/v1/sessions/${id}/run`, body)
    const both = await run({ cmd: 'sh', args: ['-c', 'echo "$1"; echo err >&2; exit 4', 'sh', 'a  b$HOME'] })
    expect(both.body).toMatchObject({
      exit_code: 4,
      stdout: 'a  b$HOME\n',
      stderr: 'err\n',
      timed_out: false,
    })
    expect((await run({ cmd: 'cat', stdin: 'ü' })).body.stdout).toBe('ü')
    await daemon.call('POST', `/v1/sessions/${id}/files/mkdir`, { path: 'sub' })
    const placed = await run({ cmd: 'sh', args: ['-c', 'echo $V; pwd'], env: { V: 'v' }, cwd: 'sub' })
    expect(placed.body.stdout).toMatch(/^v\n.*\/sub\n$/)
    expect((await run({ cmd: 'sleep', args: ['60'], timeout_ms: 100 })).body).toMatchObject({
      timed_out: true,
    })
    expect((await run({ cmd: 'no-such-program' })).body).toMatchObject({
      code: 'command_not_found',
      status: 404,
    })
    expect((await run({ cmd: 'true', timeout_ms: 86_000_000 })).body.hint).toMatch(/max_exec_timeout_ms/)
  })
})

describe('commands with an id', () => {
  it('run once, are found again, and stream from any event on', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    const body = {
      cmd: 'sh',
      args: ['-c', 'echo one; echo x >> count; read line; echo got $line'],
      exec_id: 'e1',
      stdin_open: true,
    }
    const streaming = await daemon.fetch(`${base}/run`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { accept: 'text/event-stream' },
    })
    const events = eventsOf(streaming)
    expect((await events.next()).value).toMatchObject({ event: 'start', data: { exec_id: 'e1' } })
    expect((await events.next()).value).toMatchObject({ event: 'stdout', id: '1', data: { text: 'one\n' } })
    const second = daemon.call('POST', `${base}/run`, body)
    await daemon.fetch(`${base}/execs/e1/stdin?eof=true`, { method: 'POST', body: 'this\n' })
    expect((await second).body).toMatchObject({ exec_id: 'e1', exit_code: 0, stdout: 'one\ngot this\n' })
    const rest = await all(events)
    expect(rest.at(-1)).toMatchObject({ event: 'exit', data: { exit_code: 0 } })
    expect((await daemon.call('GET', `${base}/fs/read?path=count`)).body.size).toBe(2)
    const later = await all(eventsOf(await daemon.fetch(`${base}/execs/e1/output?after=1`)))
    expect(later.map(({ event }) => event)).toEqual(['stdout', 'exit'])
    const other = await daemon.call('POST', `${base}/run`, { cmd: 'true', exec_id: 'e1' })
    expect(other.body).toMatchObject({ code: 'conflict' })
    expect((await daemon.call('GET', `${base}/execs/e1`)).body).toMatchObject({
      status: 'done',
      result: { exit_code: 0 },
    })
  })

  it('of the shell too', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    const body = { cmd: 'echo x >> count; cd /tmp; echo done', exec_id: 's1' }
    const [one, two] = await Promise.all([
      daemon.call('POST', `${base}/exec`, body),
      daemon.call('POST', `${base}/exec`, body),
    ])
    expect(one.body).toEqual(two.body)
    expect(one.body).toMatchObject({ exec_id: 's1', output: 'done\n', cwd: '/tmp' })
    expect((await daemon.call('GET', `${base}/fs/read?path=count`)).body.size).toBe(2)
    const replay = await all(eventsOf(await daemon.fetch(`${base}/execs/s1/output`)))
    expect(replay.map(({ event }) => event)).toEqual(['output', 'exit'])
  })

  it('report dropped output, while they run and afterwards', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    // More than the daemon keeps in memory for live readers.
    const loud =
      'i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done; '
    const body = {
      cmd: 'sh',
      args: ['-c', `${loud} : > said; while [ ! -e go ]; do sleep 0.05; done`],
      exec_id: 'loud',
      detach: true,
      output_buffer_bytes: 4096,
    }
    await daemon.call('POST', `${base}/run`, body)
    // Wait for all output first, because nothing is dropped while a client reads.
    const said = () => daemon.call('POST', `${base}/run`, { cmd: 'test', args: ['-e', 'said'] })
    await expect.poll(async () => (await said()).body.exit_code, { timeout: 20_000 }).toBe(0)
    expect((await daemon.call('GET', `${base}/execs/loud/output?after=0`)).body.code).toBe('gone')
    await daemon.call('POST', `${base}/fs/write`, { path: 'go', content: '' })
    expect((await daemon.call('GET', `${base}/execs/loud?wait_ms=30000`)).body.result.exit_code).toBe(0)
    const gone = await daemon.call('GET', `${base}/execs/loud/output?after=0`)
    expect(gone).toMatchObject({
      status: 410,
      body: { code: 'gone', details: { oldest: expect.any(Number) } },
    })
    const rest = await daemon.fetch(`${base}/execs/loud/output`, {
      headers: { 'last-event-id': String(gone.body.details.oldest - 1) },
    })
    expect((await all(eventsOf(rest))).at(-1)?.event).toBe('exit')
    // The sandbox is stopped, but the store has the newest output.
    await daemon.call('POST', `${base}/stop`)
    expect((await daemon.call('GET', `${base}/execs/loud`)).body).toMatchObject({ status: 'done' })
    const from = gone.body.details.oldest - 1
    const stored = await all(eventsOf(await daemon.fetch(`${base}/execs/loud/output?after=${from}`)))
    expect(stored.at(-1)).toMatchObject({ event: 'exit' })
  })

  it('are ended by a signal', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    await daemon.call('POST', `${base}/run`, { cmd: 'sleep', args: ['600'], exec_id: 'k', detach: true })
    expect((await daemon.call('POST', `${base}/execs/k/signal`, {})).body).toEqual({ signalled: true })
    const ended = await daemon.call('GET', `${base}/execs/k?wait_ms=30000`)
    expect(ended.body).toMatchObject({ status: 'done', result: { exit_code: 143, signal: 'SIGTERM' } })
    expect((await daemon.call('POST', `${base}/execs/k/signal`, {})).body).toEqual({ signalled: false })
  })
})

describe('sessions', () => {
  it('answer a repeat of an idempotent create with the same session', async () => {
    const headers = { 'idempotency-key': 'once' }
    const make = (body: object) => daemon.call('POST', '/v1/sessions', body, { headers })
    const answers = await Promise.all([make({ name: 'a' }), make({ name: 'a' }), make({ name: 'a' })])
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 201])
    expect((await make({ name: 'b' })).body).toMatchObject({ code: 'conflict' })
    expect((await daemon.call('POST', '/v1/sessions', { name: 'a' })).body).toMatchObject({
      code: 'conflict',
      details: { name: 'a' },
    })
  })

  it('stop, start and keep their disk; requests for an old incarnation fail', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    await daemon.call('POST', `${base}/fs/write`, { path: 'f', content: 'kept' })
    expect((await daemon.call('POST', `${base}/stop`)).body).toMatchObject({
      status: 'stopped',
      status_by: 'key:config',
    })
    expect((await daemon.call('POST', `${base}/exec`, { cmd: 'true' })).body).toMatchObject({
      code: 'not_running',
    })
    expect((await daemon.call('POST', `${base}/start`)).body).toMatchObject({
      status: 'running',
      incarnation: 2,
    })
    // A request for the previous incarnation neither reaches nor changes this one.
    const bodies = {
      exec: { cmd: 'touch stale' },
      run: { cmd: 'touch', args: ['stale'] },
      extend: { ttl_seconds: 9 },
      ...{ start: {}, stop: {}, pause: {}, resume: {}, snapshots: {}, fork: {} },
    }
    for (const [route, body] of Object.entries(bodies)) {
      const headers = { 'sandkasten-incarnation': '1' }
      const stale = await daemon.call('POST', `${base}/${route}`, body, { headers })
      expect(stale.body, route).toMatchObject({ code: 'interrupted', details: { incarnation: 2 } })
    }
    expect((await daemon.call('GET', base)).body).toMatchObject({ status: 'running', incarnation: 2 })
    expect((await daemon.call('GET', '/v1/snapshots')).body.snapshots).toEqual([])
    const meant = { headers: { 'sandkasten-incarnation': '2' } }
    expect((await daemon.call('POST', `${base}/extend`, { ttl_seconds: 9 }, meant)).status).toBe(200)
    expect((await daemon.call('POST', `${base}/exec`, { cmd: 'cat f' })).body.output).toBe('kept')
  })

  it('are listed in pages, by status, name and label', async () => {
    const ids: string[] = []
    for (const n of [1, 2, 3])
      ids.unshift(await daemon.session({ name: `page-${n}`, labels: { page: 'yes', n: String(n) } }))
    const list = async (query: string) => (await daemon.call('GET', `/v1/sessions?${query}`)).body
    const first = await list('label=page=yes&limit=2')
    const second = await list(`label=page=yes&limit=2&cursor=${first.next_cursor}`)
    expect([...first.sessions, ...second.sessions].map(({ id }) => id)).toEqual(ids)
    expect(second.next_cursor).toBeUndefined()
    expect((await list('label=page=yes&label=n=2')).sessions).toHaveLength(1)
    expect((await list('name=page-3')).sessions).toMatchObject([
      { id: ids[0], labels: { page: 'yes', n: '3' } },
    ])
    await daemon.call('POST', `/v1/sessions/${ids[0]}/stop`)
    expect((await list('label=page=yes&status=stopped,paused')).sessions).toHaveLength(1)
    expect((await list('status=asleep')).code).toBe('invalid_argument')
  })

  it('wake on use when asked for', async () => {
    const id = await daemon.session({ wake_on_use: true })
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo up' })).body.output).toBe(
      'up\n',
    )
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({
      incarnation: 2,
      status_reason: 'woken by use',
    })
  })
})

describe('shells', () => {
  it('show their running command and the queue, with and without an id', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    const shell = async () => (await daemon.call('GET', `${base}/shells`)).body.shells[0]
    await daemon.call('POST', `${base}/run`, { cmd: 'mkfifo', args: ['go'] })
    const first = daemon.call('POST', `${base}/exec`, { cmd: 'read line < go', timeout_ms: 60_000 })
    await expect
      .poll(shell)
      .toMatchObject({ name: 'main', running: { exec_id: null, command: 'read line < go' }, waiting: 0 })
    const second = daemon.call('POST', `${base}/exec`, { cmd: 'echo second', exec_id: 'second' })
    await expect.poll(shell).toMatchObject({ running: { exec_id: null }, waiting: 1 })
    const { started_at } = (await shell()).running
    expect(Math.abs(Date.parse(started_at) - Date.now())).toBeLessThan(60_000)
    await daemon.call('POST', `${base}/run`, { cmd: 'sh', args: ['-c', 'echo x > go'] })
    expect((await first).body.exit_code).toBe(0)
    expect((await second).body.output).toBe('second\n')
    expect(await shell()).toMatchObject({ running: null, waiting: 0 })
  })
})

describe('the time limit of a command', () => {
  it('has a default and a maximum', async () => {
    const strict = await startTestDaemon({ defaults: { exec_timeout_ms: 300, max_exec_timeout_ms: 60_000 } })
    try {
      const id = await strict.session()
      const exec = (body: object) => strict.call('POST', `/v1/sessions/${id}/exec`, body)
      expect((await exec({ cmd: 'sleep 60' })).body).toMatchObject({ timed_out: true })
      expect((await exec({ cmd: 'sleep 1; echo done', timeout_ms: 30_000 })).body).toMatchObject({
        timed_out: false,
        output: 'done\n',
      })
      expect((await exec({ cmd: 'true', timeout_ms: 60_001 })).body).toMatchObject({
        code: 'invalid_argument',
        details: { max_timeout_ms: 60_000 },
      })
    } finally {
      await strict.stop()
    }
  })
})

import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon()
})
afterAll(() => daemon?.stop())

/** Connects to a terminal and collects its messages. */
function connect(
  path: string,
  headers: Record<string, string> = { authorization: `Bearer ${daemon.key}` },
  protocols: string[] = [],
) {
  const socket = new WebSocket(`${daemon.daemon.url.replace('http', 'ws')}${path}`, protocols, { headers })
  const state = {
    text: '',
    frames: 0,
    control: [] as Array<Record<string, unknown>>,
    closed: undefined as number | undefined,
  }
  socket.on('message', (data: Buffer, binary) => {
    if (!binary) return void state.control.push(JSON.parse(data.toString()))
    state.text += data.toString()
    state.frames += 1
  })
  socket.on('error', () => {})
  socket.on('close', (code) => {
    state.closed = code
  })
  return { socket, state }
}

describe('terminals', () => {
  it('take input, replay, are taken over and end', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}/terminals`
    const { body } = await daemon.call('POST', base, { terminal_id: 't', cmd: 'cat', cols: 100, rows: 30 })
    expect(body).toMatchObject({ terminal_id: 't', status: 'running' })
    const first = connect(`${base}/t/ws`)
    await once(first.socket, 'open')
    first.socket.send(Buffer.from('hello\r'))
    await expect.poll(() => first.state.text).toMatch(/hello[\s\S]*hello/)
    expect(first.state.control[0]).toEqual({ type: 'ready', next: 1 })

    const refused = connect(`${base}/t/ws`)
    const [response] = await Promise.race([
      once(refused.socket, 'unexpected-response').then(([, r]) => [r]),
      once(refused.socket, 'open'),
    ])
    expect(response?.statusCode).toBe(409)
    refused.socket.terminate()

    const second = connect(`${base}/t/ws?takeover=1`)
    await once(second.socket, 'open')
    await expect.poll(() => second.state.text).toMatch(/hello[\s\S]*hello/)
    await expect.poll(() => first.state.closed).toBe(4001)
    second.socket.send(JSON.stringify({ type: 'resize', cols: 90, rows: 20 }))
    second.socket.close()
    await once(second.socket, 'close')

    const third = connect(`${base}/t/ws?after=${second.state.frames}`)
    await once(third.socket, 'open')
    third.socket.send(JSON.stringify({ type: 'input', data: 'more\r' }))
    await expect.poll(() => third.state.text).toContain('more')
    expect(third.state.text).not.toContain('hello')
    third.socket.send(Buffer.from([4]))
    await expect.poll(() => third.state.closed).toBe(1000)
    expect(third.state.control.at(-1)).toMatchObject({ type: 'exit', exit_code: 0 })
    await expect.poll(async () => (await daemon.call('GET', `${base}/t`)).body.status).toBe('done')
    expect((await daemon.call('GET', base)).body.terminals).toHaveLength(1)
  })

  it('need a key, which a browser sends as a protocol', async () => {
    const id = await daemon.session()
    await daemon.call('POST', `/v1/sessions/${id}/terminals`, { terminal_id: 't', cmd: 'cat' })
    const path = `/v1/sessions/${id}/terminals/t/ws`
    const without = connect(path, {})
    const [, response] = await once(without.socket, 'unexpected-response')
    expect(response.statusCode).toBe(401)
    without.socket.terminate()
    // A wrong key, a key with too small a scope, and a key of another project.
    const project_id = (await daemon.call('POST', '/v1/projects', { name: 'elsewhere' })).body.id
    const made = (body: object) => daemon.call('POST', '/v1/keys', { name: 'k', ...body })
    const reading = (await made({ scopes: ['read'] })).body.key
    const stranger = (await made({ scopes: ['admin'], project_id })).body.key
    for (const [key, status] of [
      ['sk-wrong', 401],
      [reading, 403],
      [stranger, 404],
    ]) {
      const refused = connect(path, { authorization: `Bearer ${key}` })
      const [, answer] = await once(refused.socket, 'unexpected-response')
      expect(answer.statusCode).toBe(status)
      refused.socket.terminate()
    }
    const browser = connect(path, {}, ['sandkasten', `sandkasten.key.${daemon.key}`])
    await once(browser.socket, 'open')
    expect(browser.socket.protocol).toBe('sandkasten')
    browser.socket.terminate()
    // The audit log has the accepted connections, and no refused ones.
    const visits = async () =>
      (await daemon.call('GET', '/v1/audit?limit=50')).body.entries
        .filter(({ action, target }: Record<string, string>) => action === 'connectTerminal' && target === id)
        .map(({ status }: { status: number }) => status)
    await expect.poll(visits).toEqual([101])
    const unknown = connect(`/v1/sessions/${id}/terminals/none/ws`)
    const [, missing] = await once(unknown.socket, 'unexpected-response')
    expect(missing.statusCode).toBe(404)
    unknown.socket.terminate()
  })
})

describe('shells', () => {
  it('are independent and keep their state', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    await daemon.call('POST', `${base}/files/mkdir`, { path: 'w' })
    const opened = await daemon.call('POST', `${base}/shells`, { name: 'b', cwd: 'w', env: { X: 'b' } })
    expect(opened.body.cwd).toMatch(/\/w$/)
    await daemon.call('POST', `${base}/exec`, { cmd: 'X=a' })
    const exec = async (cmd: string, shell?: string) =>
      (await daemon.call('POST', `${base}/exec`, { cmd, shell })).body
    expect((await exec('echo $X', 'b')).output).toBe('b\n')
    expect((await exec('echo $X')).output).toBe('a\n')
    expect((await exec('exit 7', 'b')).exit_code).toBe(7)
    expect((await exec('echo $X', 'b')).shell_restarted).toBe(true)
    expect((await daemon.call('GET', `${base}/shells`)).body.shells).toHaveLength(2)
    expect((await daemon.call('DELETE', `${base}/shells/b`)).body).toEqual({ closed: true })
    expect((await daemon.call('DELETE', `${base}/shells/b`)).body.code).toBe('not_found')
  })

  it('run one command at a time, and survive a killed command', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}`
    const slow = daemon.call('POST', `${base}/exec`, { cmd: 'sleep 600', exec_id: 'slow' })
    await expect
      .poll(async () => (await daemon.call('GET', `${base}/execs/slow`)).body.status)
      .toBe('running')
    expect((await daemon.call('POST', `${base}/execs/slow/signal`, { signal: 'SIGHUP' })).body.code).toBe(
      'unsupported',
    )
    expect((await daemon.call('POST', `${base}/execs/slow/signal`, { signal: 'SIGINT' })).body).toEqual({
      signalled: true,
    })
    expect((await slow).body).toMatchObject({ exit_code: 137 })
    expect((await daemon.call('POST', `${base}/exec`, { cmd: 'echo on' })).body).toMatchObject({
      output: 'on\n',
      shell_restarted: false,
    })
    expect(
      (await daemon.call('POST', `${base}/exec`, { cmd: 'sleep 600', timeout_ms: 50 })).body,
    ).toMatchObject({ timed_out: true })
  })
})

describe('files', () => {
  it('stream both ways, with ranges, and are listed, moved, linked and removed', async () => {
    const id = await daemon.session()
    const base = `/v1/sessions/${id}/files`
    const bytes = new Uint8Array(3_000_000).map((_, index) => index % 251)
    expect((await daemon.fetch(`${base}?path=a/big&mode=755`, { method: 'PUT', body: bytes })).status).toBe(
      200,
    )
    const whole = await daemon.fetch(`${base}?path=a/big`)
    expect(whole.headers.get('content-length')).toBe('3000000')
    expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).toBe(true)
    const range = async (header: string) => {
      const response = await daemon.fetch(`${base}?path=a/big`, { headers: { range: header } })
      return {
        status: response.status,
        range: response.headers.get('content-range'),
        bytes: Buffer.from(await response.arrayBuffer()),
      }
    }
    expect(await range('bytes=10-19')).toEqual({
      status: 206,
      range: 'bytes 10-19/3000000',
      bytes: Buffer.from(bytes.slice(10, 20)),
    })
    expect((await range('bytes=-5')).bytes).toEqual(Buffer.from(bytes.slice(-5)))
    expect((await range('bytes=5000000-')).status).toBe(400)
    await daemon.fetch(`${base}?path=a/big&append=true`, { method: 'PUT', body: 'end' })
    const stat = await daemon.call('GET', `${base}/stat?path=a/big`)
    expect(stat.body).toMatchObject({ type: 'file', size: 3_000_003, mode: 0o755 })
    await daemon.call('POST', `${base}/symlink`, { target: 'big', path: 'a/link' })
    expect((await daemon.call('GET', `${base}/stat?path=a/link&follow=false`)).body).toMatchObject({
      type: 'symlink',
      target: 'big',
    })
    await daemon.call('POST', `${base}/move`, { from: 'a/big', to: 'b' })
    await daemon.call('POST', `${base}/chmod`, { path: 'b', mode: 0o600 })
    const list = await daemon.call('GET', `${base}/list?recursive=true`)
    expect(list.body.entries.map((entry: { path: string }) => entry.path)).toEqual(['a', 'a/link', 'b'])
    expect((await daemon.fetch(`${base}?path=a`, { method: 'DELETE' })).status).toBe(409)
    expect((await daemon.fetch(`${base}?path=a&recursive=1`, { method: 'DELETE' })).status).toBe(200)
    expect((await daemon.call('GET', `${base}?path=a/none`)).body).toMatchObject({
      code: 'file_not_found',
      status: 404,
    })
    expect((await daemon.call('GET', `${base}?path=../../../etc/passwd`)).body).toMatchObject({
      code: 'path_outside',
    })
  })

  it('are uploaded and downloaded as archives, and are watched', async () => {
    const id = await daemon.session()
    const other = await daemon.session()
    const base = `/v1/sessions/${id}/files`
    for (const name of ['x', 'y/z'])
      await daemon.fetch(`${base}?path=tree/${name}`, { method: 'PUT', body: name })
    const archive = await daemon.fetch(`${base}/archive?path=tree`)
    expect(archive.headers.get('content-type')).toBe('application/x-tar')
    const tar = await archive.arrayBuffer()
    const put = await daemon.fetch(`/v1/sessions/${other}/files/archive?path=copy/of`, {
      method: 'PUT',
      body: tar,
    })
    expect(put.status).toBe(200)
    expect(await (await daemon.fetch(`/v1/sessions/${other}/files?path=copy/of/y/z`)).text()).toBe('y/z')
    expect((await daemon.fetch(`${base}/archive?path=t2`, { method: 'PUT', body: 'no tar' })).status).toBe(
      400,
    )
    expect((await daemon.call('GET', `${base}/archive?path=none`)).body.code).toBe('file_not_found')

    const watching = eventsOf(await daemon.fetch(`${base}/watch?path=tree&recursive=true`))
    expect((await watching.next()).value.event).toBe('ready')
    await daemon.fetch(`${base}?path=tree/new`, { method: 'PUT', body: 'n' })
    expect((await watching.next()).value).toMatchObject({ event: 'change', data: { path: 'new' } })
    await watching.return(undefined)
  })
})

describe('snapshots and forks', () => {
  it('carry the disk to new sessions', async () => {
    const id = await daemon.session()
    const write = (path: string) =>
      daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path, content: path })
    await write('one')
    const { body: snapshot, status } = await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {
      name: 'first',
    })
    expect({ status, name: snapshot.name, session_id: snapshot.session_id }).toEqual({
      status: 201,
      name: 'first',
      session_id: id,
    })
    await write('two')
    const copy = await daemon.session({ snapshot_id: snapshot.id })
    const names = async (session: string) =>
      (await daemon.call('POST', `/v1/sessions/${session}/exec`, { cmd: 'ls' })).body.output
    expect(await names(copy)).toBe('one\n')
    const forks = await daemon.call('POST', `/v1/sessions/${id}/fork`, { count: 2 })
    expect(forks.body.sessions).toHaveLength(2)
    for (const fork of forks.body.sessions) {
      expect(fork).toMatchObject({ status: 'running', status_reason: `forked from ${id}` })
      expect(await names(fork.id)).toBe('one\ntwo\n')
    }
    expect((await daemon.call('GET', `/v1/snapshots?session_id=${id}`)).body.snapshots).toEqual([snapshot])
    expect((await daemon.call('DELETE', `/v1/snapshots/${snapshot.id}`)).body).toEqual({ deleted: true })
    expect((await daemon.call('GET', `/v1/snapshots/${snapshot.id}`)).status).toBe(404)
  })
})

describe('events', () => {
  it('resume after a number, and arrive live', async () => {
    const stream = eventsOf(await daemon.fetch('/v1/events'))
    const id = await daemon.session()
    let event = (await stream.next()).value
    while (event.data.session_id !== id) event = (await stream.next()).value
    expect(event).toMatchObject({ event: 'session.running', data: { session_id: id } })
    await stream.return(undefined)
    await daemon.call('POST', `/v1/sessions/${id}/stop`, {})
    const rest = eventsOf(await daemon.fetch(`/v1/events?after=${event.id}&session_id=${id}`))
    expect((await rest.next()).value.event).toBe('session.stopped')
    await rest.return(undefined)
  })
})

import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  all,
  eventsOf,
  startTestDaemon,
  type TestDaemon,
} from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
type Anything = any

/** Requests that no SDK makes, or not in case of errors: keys, scopes, code contexts, broken connections. */
describe.skipIf(missing)(`OpenSandbox’s wire${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let id: string
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { opensandbox: { listen: '127.0.0.1:0' } },
    })
    const made = await ask('POST', '/v1/sandboxes', { image: { uri: 'host' }, timeout: 3600 })
    expect(made.status).toBe(202)
    expect(made.headers.get('location')).toBe(`/v1/sandboxes/${made.body.id}`)
    id = made.body.id
  })
  afterAll(() => daemon?.stop())

  const front = () => daemon.daemon.fronts.opensandbox!
  const send = (
    method: string,
    where: string,
    body?: unknown,
    key: string | undefined = daemon.key,
    init: RequestInit = {},
  ) =>
    fetch(`${front()}${where}`, {
      method,
      body: JSON.stringify(body),
      headers: {
        ...(key === '' ? {} : { 'OPEN-SANDBOX-API-KEY': key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...init,
    })
  const ask = async (method: string, where: string, body?: unknown, key?: string) => {
    const response = await send(method, where, body, key)
    const text = await response.text()
    const json = response.headers.get('content-type')?.startsWith('application/json')
    return {
      status: response.status,
      headers: response.headers,
      body: (json ? JSON.parse(text) : text) as Anything,
    }
  }
  const execd = (where: string, sandbox = id) => `/sandboxes/${sandbox}/port/44772${where}`
  const stream = async (where: string, body: unknown) => {
    const response = await send('POST', execd(where), body)
    if (response.status !== 200) return [response.status, ((await response.json()) as Anything).code]
    const events = await all(eventsOf(response))
    return events.map(({ event, data }) => {
      expect(data.type).toBe(event)
      return data
    })
  }
  const brief = async (where: string, body: unknown) =>
    (await stream(where, body))
      .filter(({ type }: Anything) => type !== 'init' && type !== 'execution_complete')
      .map(({ type, text, results, execution_count: count, error }: Anything) => [
        type,
        text ?? results?.['text/plain'] ?? count ?? `${error.ename}: ${error.evalue}`,
      ])

  const routes: Array<[string, string, unknown?]> = [
    ['GET', '/v1/sandboxes/:id'],
    ['PATCH', '/v1/sandboxes/:id/metadata', {}],
    ['POST', '/v1/sandboxes/:id/pause'],
    ['POST', '/v1/sandboxes/:id/resume'],
    ['POST', '/v1/sandboxes/:id/renew-expiration', { expiresAt: '2999-01-01T00:00:00Z' }],
    ['POST', '/v1/sandboxes/:id/snapshots', {}],
    ['GET', '/v1/sandboxes/:id/endpoints/44772'],
    ['GET', '/v1/sandboxes/:id/endpoints/8000'],
    ['GET', '/sandboxes/:id/port/44772/ping'],
    ['GET', '/sandboxes/:id/port/44772/metrics'],
    ['POST', '/sandboxes/:id/port/44772/command', { command: 'true' }],
    ['DELETE', '/sandboxes/:id/port/44772/command?id=x'],
    ['GET', '/sandboxes/:id/port/44772/command/status/x'],
    ['GET', '/sandboxes/:id/port/44772/command/x/logs'],
    ['POST', '/sandboxes/:id/port/44772/session', {}],
    ['POST', '/sandboxes/:id/port/44772/session/x/run', { command: 'true' }],
    ['DELETE', '/sandboxes/:id/port/44772/session/x'],
    ['POST', '/sandboxes/:id/port/44772/code', { code: '1' }],
    ['POST', '/sandboxes/:id/port/44772/code', { code: '1', context: { id: 'x' } }],
    ['DELETE', '/sandboxes/:id/port/44772/code?id=x'],
    ['POST', '/sandboxes/:id/port/44772/code/context', {}],
    ['GET', '/sandboxes/:id/port/44772/code/contexts?language=python'],
    ['DELETE', '/sandboxes/:id/port/44772/code/contexts?language=python'],
    ['GET', '/sandboxes/:id/port/44772/code/contexts/x'],
    ['DELETE', '/sandboxes/:id/port/44772/code/contexts/x'],
    ['GET', '/sandboxes/:id/port/44772/files/info?path=/etc/passwd'],
    ['GET', '/sandboxes/:id/port/44772/files/download?path=/etc/passwd'],
    ['GET', '/sandboxes/:id/port/44772/files/download?path=/etc/passwd&limit=1'],
    ['POST', '/sandboxes/:id/port/44772/files/upload', {}],
    ['DELETE', '/sandboxes/:id/port/44772/files?path=x'],
    ['POST', '/sandboxes/:id/port/44772/files/mv', [{ src: 'a', dest: 'b' }]],
    ['POST', '/sandboxes/:id/port/44772/files/permissions', { x: { mode: 644 } }],
    ['POST', '/sandboxes/:id/port/44772/files/replace', { x: { old: 'a', new: 'b' } }],
    ['GET', '/sandboxes/:id/port/44772/files/search?path=/tmp'],
    ['GET', '/sandboxes/:id/port/44772/directories/list?path=/tmp'],
    ['POST', '/sandboxes/:id/port/44772/directories', { x: { mode: 755 } }],
    ['DELETE', '/sandboxes/:id/port/44772/directories?path=x'],
    ['GET', '/sandboxes/:id/port/44772/v1/isolated/capabilities'],
    ['GET', '/sandboxes/:id/port/18080/policy'],
    ['PATCH', '/sandboxes/:id/port/18080/policy', []],
    ['GET', '/sandboxes/:id/port/18080/credential-vault'],
    ['DELETE', '/v1/sandboxes/:id'],
  ]
  const none = 'aaaaaaaaaaaaaaaa'

  it('responds with 401 without a valid key', async () => {
    const revoked = await daemon.call('POST', '/v1/keys', { name: 'old', scopes: ['exec'] })
    expect((await ask('GET', '/v1/sandboxes', undefined, revoked.body.key)).status).toBe(200)
    await daemon.call('DELETE', `/v1/keys/${revoked.body.id}`)
    const tried = [
      ['', 'MISSING_API_KEY'],
      ['sk-wrong-key', 'INVALID_API_KEY'],
      [revoked.body.key, 'INVALID_API_KEY'],
    ]
    for (const [key, code] of tried)
      for (const [method, route, body] of [
        ...routes,
        ['POST', '/v1/sandboxes', {}],
        ['GET', '/v1/snapshots'],
      ] as typeof routes) {
        const answer = await ask(method, route.replace(':id', id), body, key)
        expect([answer.status, answer.body.code], `${method} ${route}`).toEqual([401, code])
      }
    expect((await ask('GET', `/v1/sandboxes/${id}`)).body.status.state).toBe('Running')
  })

  it('the token of an endpoint opens only execd of its sandbox, and ends with its key', async () => {
    const key = await daemon.call('POST', '/v1/keys', { name: 'token', scopes: ['exec'] })
    const other = await ask('POST', '/v1/sandboxes', { image: { uri: 'host' }, timeout: 3600 })
    const at = `/v1/sandboxes/${id}/endpoints/44772`
    const { endpoint, headers } = (await ask('GET', at, undefined, key.body.key)).body
    expect([endpoint, Object.keys(headers)]).toEqual([
      `${new URL(front()).host}/sandboxes/${id}/port/44772`,
      ['X-EXECD-ACCESS-TOKEN'],
    ])
    expect(JSON.stringify(headers)).not.toContain(key.body.key)
    const status = async (where: string) => (await send('GET', where, undefined, '', { headers })).status
    const info = '/files/info?path=/etc/passwd'
    expect(await status(execd(info))).toBe(200)
    expect(await status(`/sandboxes/${id}/port/18080/policy`)).toBe(200)
    expect(await status(execd(info, other.body.id))).toBe(401)
    expect(await status(`/v1/sandboxes/${id}`)).toBe(401)
    await daemon.call('DELETE', `/v1/keys/${key.body.id}`)
    expect(await status(execd(info))).toBe(401)
    await ask('DELETE', `/v1/sandboxes/${other.body.id}`)
  })

  it('another project’s sandbox looks like a missing one', async () => {
    const project = await daemon.call('POST', '/v1/projects', { name: 'other' })
    const other = await daemon.call('POST', '/v1/keys', {
      project_id: project.body.id,
      name: 'o',
      scopes: ['admin'],
    })
    const mine = await ask('POST', `/v1/sandboxes/${id}/snapshots`, { name: 'mine' })
    expect(mine.status).toBe(202)
    for (const [method, route, body] of routes) {
      const foreign = await ask(method, route.replace(':id', id), body, other.body.key)
      const nowhere = await ask(method, route.replace(':id', none), body, other.body.key)
      expect(foreign.status, `${method} ${route}`).toBe(404)
      expect(foreign.body).toEqual(JSON.parse(JSON.stringify(nowhere.body).replaceAll(none, id)))
    }
    for (const method of ['GET', 'DELETE'])
      expect((await ask(method, `/v1/snapshots/${mine.body.id}`, undefined, other.body.key)).status).toBe(404)
    expect((await ask('GET', '/v1/sandboxes', undefined, other.body.key)).body.items).toEqual([])
    expect((await ask('GET', '/v1/snapshots', undefined, other.body.key)).body.items).toEqual([])
    expect((await ask('GET', `/v1/snapshots?name=mine&sandboxId=${id}`)).body.items).toEqual([mine.body])
    expect((await ask('DELETE', `/v1/snapshots/${mine.body.id}`)).status).toBe(204)
    expect((await ask('GET', `/v1/sandboxes/${id}`)).body.status.state).toBe('Running')
  })

  it('a read-only key can read, but not change', async () => {
    const reader = (await daemon.call('POST', '/v1/keys', { name: 'reader', scopes: ['read'] })).body.key
    for (const [method, route, body] of routes) {
      const { status, body: answer } = await ask(method, route.replace(':id', id), body, reader)
      const changes = method !== 'GET' || route.endsWith('/endpoints/8000') || route.includes('vault')
      if (changes) expect([status, answer.code], `${method} ${route}`).toEqual([403, 'FORBIDDEN'])
      else expect([200, 404], `${method} ${route}`).toContain(status)
    }
    expect((await ask('POST', '/v1/sandboxes', { image: { uri: 'host' } }, reader)).status).toBe(403)
    expect((await ask('GET', '/v1/sandboxes', undefined, reader)).body.items.length).toBe(1)
    const audit = await daemon.call('GET', '/v1/audit?limit=200')
    expect(JSON.stringify(audit.body)).toContain('opensandbox POST /sandboxes/:id/port/44772/command')
  })

  it('rejects invalid input with a code', async () => {
    const cases: Array<[string, string, unknown, number, string]> = [
      ['GET', '/v1/nothing', undefined, 404, 'NOT_FOUND'],
      ['POST', '/v1/sandboxes', { image: 3 }, 400, 'SANDBOX::INVALID_PARAMETER'],
      ['POST', '/v1/sandboxes', {}, 400, 'SANDBOX::INVALID_PARAMETER'],
      [
        'POST',
        `/v1/sandboxes/${id}/renew-expiration`,
        { expiresAt: 'soon' },
        400,
        'SANDBOX::INVALID_PARAMETER',
      ],
      ['GET', `/v1/sandboxes/${id}/endpoints/0`, undefined, 400, 'SANDBOX::INVALID_PARAMETER'],
      [
        'GET',
        `/v1/sandboxes/${id}/endpoints/80?expires=9999999999`,
        undefined,
        400,
        'SANDBOX::INVALID_PARAMETER',
      ],
      ['POST', execd('/command'), { command: ' ' }, 400, 'INVALID_REQUEST_BODY'],
      ['POST', execd('/command'), {}, 400, 'INVALID_REQUEST_BODY'],
      ['GET', execd('/files/info'), undefined, 400, 'INVALID_REQUEST_BODY'],
      ['GET', execd('/files/download?path=x&offset=0'), undefined, 400, 'INVALID_REQUEST_BODY'],
      ['POST', execd('/files/permissions'), { x: { mode: 888 } }, 400, 'INVALID_REQUEST_BODY'],
      ['POST', execd('/files/replace'), { x: { old: '', new: '' } }, 400, 'INVALID_REQUEST_BODY'],
      ['POST', execd('/files/upload'), {}, 400, 'INVALID_FILE'],
      ['GET', execd('/directories/list?path=/&depth=0'), undefined, 400, 'INVALID_REQUEST_BODY'],
      ['GET', execd('/files/search?path=/usr/share&pattern=[z-a]'), undefined, 400, 'INVALID_REQUEST_BODY'],
    ]
    for (const [method, where, body, status, code] of cases) {
      const answer = await ask(method, where, body)
      expect([answer.status, answer.body.code], `${method} ${where}`).toEqual([status, code])
      expect(answer.body.message).toMatch(/\w/)
      expect(answer.headers.get('x-request-id')).toMatch(/^[\w-]{36}$/)
    }
    const broken = await send('POST', execd('/command'), undefined, daemon.key, {
      body: '{"command":',
      headers: { 'OPEN-SANDBOX-API-KEY': daemon.key, 'content-type': 'application/json' },
    })
    expect([broken.status, ((await broken.json()) as Anything).code]).toEqual([400, 'INVALID_REQUEST_BODY'])
  })

  it('streams output while a command runs, and ends the command when the client leaves', async () => {
    const leave = new AbortController()
    const response = await send('POST', execd('/command'), { command: 'echo here; sleep 600' }, daemon.key, {
      signal: leave.signal,
      headers: { 'OPEN-SANDBOX-API-KEY': daemon.key, 'content-type': 'application/json' },
    })
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    let command = ''
    // Manually: leaving a loop would close the connection.
    const events = eventsOf(response)
    for (let next = await events.next(); next.value?.event !== 'stdout'; next = await events.next())
      if (next.value?.event === 'init') command = next.value.data.text
    const state = async () => (await ask('GET', execd(`/command/status/${command}`))).body
    expect((await state()).running).toBe(true)
    leave.abort()
    await expect.poll(async () => (await state()).running).toBe(false)
    expect((await state()).exit_code).toBe(137)
  })

  it('a partial upload leaves nothing', async () => {
    const { hostname, port } = new URL(front())
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    const part = (name: string, content: string) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"; filename="${name}"\r\n\r\n${content}`
    socket.write(
      `POST ${execd('/files/upload')} HTTP/1.1\r\nhost: x\r\nOPEN-SANDBOX-API-KEY: ${daemon.key}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 9000000\r\n\r\n` +
        `${part('metadata', '{"path":"/tmp/half/whole"}')}\r\n${part('file', 'all of it')}\r\n` +
        `${part('metadata', '{"path":"/tmp/half/cut"}')}\r\n${part('file', 'x'.repeat(100_000))}`,
    )
    const files = async () => (await ask('GET', execd('/files/search?path=/tmp&pattern=half/**'))).body
    await expect
      .poll(async () => (await files()).map(({ path }: Anything) => path))
      .toContain('/tmp/half/whole')
    const writing = () => daemon.context.live.holds(id)
    await expect.poll(writing).toBe(1)
    socket.destroy()
    // The server does not wait for the rest.
    await expect.poll(writing).toBe(0)
    const cut = await send('POST', execd('/files/upload'), undefined, daemon.key, {
      body: `${part('metadata', '{"path":"/tmp/half/cut"}')}\r\n${part('file', 'x'.repeat(100_000))}`,
      headers: {
        'OPEN-SANDBOX-API-KEY': daemon.key,
        'content-type': 'multipart/form-data; boundary=b',
      },
    })
    expect([cut.status, ((await cut.json()) as Anything).code]).toEqual([400, 'INVALID_FILE'])
    expect(writing()).toBe(0)
    expect((await files()).map(({ path }: Anything) => path)).toEqual(['/tmp/half/whole'])
  })

  it('metrics are sent repeatedly', async () => {
    const leave = new AbortController()
    const response = await send('GET', execd('/metrics/watch'), undefined, daemon.key, {
      signal: leave.signal,
      headers: { 'OPEN-SANDBOX-API-KEY': daemon.key },
    })
    const times: number[] = []
    for await (const { data } of eventsOf(response)) {
      expect(data).toMatchObject({ cpu_count: 1, mem_total_mib: 512 })
      if (times.push(data.timestamp) === 2) break
    }
    leave.abort()
    expect(times[1]).toBeGreaterThan(times[0]!)
  })

  const contextOf = async (language: string) => {
    const made = await ask('POST', execd('/code/context'), { language })
    expect([made.status, made.body.language]).toEqual([200, language])
    return made.body as { id: string; language: string }
  }

  it('Python keeps its variables, and separates output, results and errors', async () => {
    const context = await contextOf('python')
    const run = (code: string) => brief('/code', { code, context })
    const first = await stream('/code', { code: 'x = 6\nx * 7', context })
    expect(first.map(({ type }: Anything) => type)).toEqual([
      'init',
      'execution_count',
      'result',
      'execution_complete',
    ])
    expect(first[2].results).toEqual({ 'text/plain': '42' })
    const printing =
      'import os, sys\nprint("ü", x)\nprint("e", file=sys.stderr)\nsys.stdout.flush()\nos.system("echo child")'
    const said: Anything[] = await run(printing)
    const text = (type: string) =>
      said
        .filter(([name]) => name === type)
        .map(([, part]) => part)
        .join('')
    expect([text('stdout'), text('stderr'), text('result')]).toEqual(['ü 6\nchild\n', 'e\n', '0'])
    const count = ['execution_count', expect.any(Number)]
    expect(await run('1 / 0')).toEqual([count, ['error', 'ZeroDivisionError: division by zero']])
    expect(await run('if :')).toEqual([count, ['error', expect.stringContaining('SyntaxError')]])
    expect(await run('input()')).toEqual([count, ['error', expect.stringContaining('EOFError')]])
    expect(await run('raise SystemExit(3)')).toEqual([count, ['error', 'SystemExit: 3']])
    const [, failed] = (await stream('/code', { code: 'def f():\n    oops\nf()', context })).filter(
      ({ type }: Anything) => type !== 'init',
    )
    expect(failed.error.traceback).toEqual([
      'Traceback (most recent call last):',
      expect.stringContaining('line 3'),
      expect.stringContaining('line 2, in f'),
      "NameError: name 'oops' is not defined",
    ])
    // Text that looks like a frame is only text.
    expect(await run('print(\'{"id":"","type":"done","execution_time":0}\')')).toEqual([
      count,
      ['stdout', '{"id":"","type":"done","execution_time":0}\n'],
    ])
    const much: Anything[] = await run('for i in range(100000): print(i)\nx')
    expect(much.at(-1)).toEqual(['result', '6'])
    expect(
      much
        .filter(([type]) => type === 'stdout')
        .map(([, part]) => part)
        .join('')
        .split('\n'),
    ).toHaveLength(100_001)
    expect((await run('"y" * 3_000_000')).at(-1)![1]).toHaveLength(500_001)
    expect((await run('"\\ud800"')).at(-1)).toEqual(['result', "'\\ud800'"])
    // Two concurrent runs are serialized.
    const slowly = 'import time; y = x; time.sleep(0.3); x = y + 1; x'
    const both = await Promise.all([run(slowly), run(slowly)])
    expect(both.map((events) => events.at(-1)![1]).sort()).toEqual(['7', '8'])
  })

  it('contexts are separate, are listed and deleted, and end with their interpreter', async () => {
    const [one, two] = [await contextOf('python'), await contextOf('python')]
    await stream('/code', { code: 'y = 1', context: one })
    expect((await brief('/code', { code: 'y', context: two })).at(-1)).toEqual([
      'error',
      "NameError: name 'y' is not defined",
    ])
    const ids = async () =>
      (await ask('GET', execd('/code/contexts?language=python'))).body.map((each: Anything) => each.id)
    expect(await ids()).toEqual(expect.arrayContaining([one.id, two.id]))
    expect((await ask('GET', execd(`/code/contexts/${one.id}`))).body).toEqual(one)
    expect((await ask('DELETE', execd(`/code/contexts/${one.id}`))).status).toBe(200)
    expect(await stream('/code', { code: '1', context: one })).toEqual([404, 'CONTEXT_NOT_FOUND'])
    expect((await ask('DELETE', execd(`/code/contexts/${one.id}`))).status).toBe(404)

    const died = await brief('/code', { code: 'import os; os._exit(0)', context: two })
    expect(died.at(-1)).toEqual(['error', 'KernelDied: The interpreter has ended.'])
    await expect
      .poll(() => stream('/code', { code: '1', context: two }).catch(String))
      .toEqual([404, 'CONTEXT_NOT_FOUND'])
    // Without a context, a default one is used, and replaced when it has died.
    const usual = (code: string) => brief('/code', { code, context: { language: 'python' } })
    await usual('z = 3')
    expect((await usual('z')).at(-1)).toEqual(['result', '3'])
    await usual('import os; os._exit(0)')
    await expect.poll(async () => (await usual('1 + 1')).at(-1)).toEqual(['result', '2'])
    expect((await ask('DELETE', execd('/code/contexts?language=python'))).status).toBe(200)
    expect(await ids()).toEqual([])
    expect(await stream('/code', { code: '1', context: { language: 'java' } })).toEqual([
      501,
      'NOT_SUPPORTED',
    ])
  })

  it('a request or a disconnect interrupts code; the context stays', async () => {
    const context = await contextOf('python')
    const begun = async (code: string, signal?: AbortSignal) => {
      const response = await send('POST', execd('/code'), { code, context }, daemon.key, {
        signal,
        headers: { 'OPEN-SANDBOX-API-KEY': daemon.key, 'content-type': 'application/json' },
      })
      const events = eventsOf(response)
      for (let next = await events.next(); next.value.event !== 'stdout'; ) next = await events.next()
      return events
    }
    const endless = 'print("begun", flush=True)\nimport time\nwhile True: time.sleep(0.1)'
    const events = await begun(endless)
    expect((await ask('DELETE', execd(`/code?id=${context.id}`))).status).toBe(200)
    const rest = (await all(events)).map(({ event }) => event).filter((event) => event !== 'stdout')
    expect(rest).toEqual(['error', 'execution_complete'])
    const leave = new AbortController()
    await begun(endless, leave.signal)
    leave.abort()
    expect((await brief('/code', { code: '"still " + "here"', context })).at(-1)).toEqual([
      'result',
      "'still here'",
    ])
  })

  it('bash contexts are shells', async () => {
    const context = await contextOf('bash')
    const run = (code: string) => brief('/code', { code, context })
    expect(await run('cd /usr; n=4')).toEqual([])
    expect(await run('echo "$n $PWD"')).toEqual([['stdout', '4 /usr']])
    expect(await run('false')).toEqual([['error', 'CommandExecError: 1']])
    const slow = run('sleep 600')
    await expect
      .poll(async () => {
        await ask('DELETE', execd(`/code?id=${context.id}`))
        return Promise.race([slow.then(() => 'ended'), new Promise((go) => setTimeout(go, 200, 'runs'))])
      })
      .toBe('ended')
    expect((await ask('DELETE', execd(`/code/contexts/${context.id}`))).status).toBe(200)
    expect(await stream('/code', { code: 'true', context })).toEqual([404, 'CONTEXT_NOT_FOUND'])
  })

  it('a restart of the daemon keeps contexts, sessions, commands and keys', async () => {
    const context = await contextOf('python')
    await stream('/code', { code: 'kept = "yes"', context })
    const session = (await ask('POST', execd('/session'), {})).body.session_id
    await stream(`/session/${session}/run`, { command: 'kept=also' })
    const [{ text: command }] = await stream('/command', {
      command: 'echo early; sleep 2; echo late',
      background: true,
    })
    await daemon.restart()
    expect((await brief('/code', { code: 'kept', context })).at(-1)).toEqual(['result', "'yes'"])
    expect(await brief(`/session/${session}/run`, { command: 'echo "$kept"' })).toEqual([['stdout', 'also']])
    await expect
      .poll(async () => (await ask('GET', execd(`/command/status/${command}`))).body.exit_code)
      .toBe(0)
    expect((await ask('GET', execd(`/command/${command}/logs`))).body).toBe('early\nlate\n')
    expect((await ask('DELETE', execd(`/session/${session}`))).status).toBe(200)
    expect((await ask('DELETE', `/v1/sandboxes/${id}`)).status).toBe(204)
    expect((await ask('GET', `/v1/sandboxes/${id}`)).status).toBe(404)
    expect((await ask('GET', execd('/ping'))).status).toBe(404)
  })
})

import { Daytona, type Sandbox } from '@daytona/sdk'
import { Daytona as OlderDaytona } from '@daytonaio/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

describe.skipIf(missing !== undefined)(`Daytona’s front${missing ? ` (${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let sandbox: Sandbox
  const clients: Daytona[] = []
  const url = () => daemon.daemon.fronts.daytona!
  const client = (apiKey = daemon.key) => {
    const made = new Daytona({ apiKey, apiUrl: `${url()}/api`, target: 'us' })
    clients.push(made)
    return made
  }
  const status = (work: Promise<unknown>) =>
    work.then(
      () => 200,
      ({ statusCode }: { statusCode?: number }) => statusCode,
    )
  const keyOf = async (project: string | undefined, scopes: string[]) => {
    const { body } = await daemon.call('POST', '/v1/keys', { name: 'test', scopes, project_id: project })
    expect(body.key).toBeTypeOf('string')
    return body.key as string
  }

  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      max_result_mb: 32,
      fronts: { daytona: { listen: '127.0.0.1:0' } },
    })
    sandbox = await client().create({ name: 'main' })
  })
  afterAll(async () => {
    for (const made of clients) await made[Symbol.asyncDispose]()
    await daemon?.stop()
  })

  it('requires a key, and limits it to its scopes', async () => {
    for (const path of [
      '/api/sandbox',
      `/api/sandbox/${sandbox.id}`,
      `/toolbox/${sandbox.id}/files?path=.`,
    ]) {
      const answer = await fetch(`${url()}${path}`)
      expect([answer.status, await answer.json()]).toMatchObject([
        401,
        { statusCode: 401, code: 'UNAUTHORIZED' },
      ])
    }
    const reader = client(await keyOf(undefined, ['read']))
    const seen = await reader.get(sandbox.id)
    expect(await seen.fs.listFiles('/')).not.toHaveLength(0)
    expect(await status(seen.process.executeCommand('true'))).toBe(403)
    expect(await status(seen.stop())).toBe(403)
    expect(await status(reader.create())).toBe(403)
    expect(await status(seen.process.createPty({ id: 'x', onData: () => {} }))).not.toBe(200)
  })

  it('hides another project’s sandbox, by id and by name', async () => {
    const { body } = await daemon.call('POST', '/v1/projects', { name: 'others' })
    const stranger = client(await keyOf(body.id, ['admin']))
    for (const name of [sandbox.id, 'main', 'no-such-sandbox'])
      expect(await status(stranger.get(name))).toBe(404)
    for await (const one of stranger.list()) expect.fail(`It sees ${one.id}.`)
    const answer = await fetch(`${url()}/toolbox/${sandbox.id}/process/execute`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await keyOf(body.id, ['admin'])}`,
        'content-type': 'application/json',
      },
      body: '{"command":"id"}',
    })
    expect(answer.status).toBe(404)
  })

  it('records callers and actions in the audit log', async () => {
    await sandbox.process.executeCommand('true')
    await expect
      .poll(async () => (await daemon.call('GET', '/v1/audit?limit=100')).body.entries)
      .toContainEqual(
        expect.objectContaining({ action: expect.stringContaining('process/execute'), target: sandbox.id }),
      )
  })

  it('a fork has the files and its given name', async () => {
    await sandbox.fs.uploadFile(Buffer.from('then'), 'forked.txt')
    const copy = await sandbox.fork({ name: 'a-copy' })
    expect((await client().get('a-copy')).id).toBe(copy.id)
    expect(String(await copy.fs.downloadFile('forked.txt'))).toBe('then')
    expect(await status(sandbox.fork({ name: 'a-copy' }))).toBe(409)
    await copy.delete()
  })

  it('auto-stop, time to live and ephemeral are the session’s leases', async () => {
    const made = await client().create({
      autoStopInterval: 7,
      ttlMinutes: 60,
      ephemeral: true,
      labels: { a: 'b' },
    })
    const session = async () => (await daemon.call('GET', `/v1/sessions/${made.id}`)).body
    expect(await session()).toMatchObject({
      ttl_seconds: 420,
      on_idle: 'destroy',
      lifetime_seconds: 3600,
      on_lifetime: 'destroy',
    })
    await made.setAutostopInterval(9)
    await made.setTtl(120)
    await made.refreshActivity()
    const changed = await session()
    expect(changed.ttl_seconds).toBe(540)
    expect(changed.lifetime_seconds).toBeGreaterThanOrEqual(7200)
    await made.stop()
    expect(made.state).toBe('destroyed')
    expect(await status(client().get(made.id))).toBe(404)
  })

  it('reports unsupported and invalid requests', async () => {
    const daytona = client()
    expect(await status(sandbox.archive())).toBe(501)
    expect(await status(sandbox.resize({ cpu: 2 }))).toBe(501)
    expect(await status(sandbox.createSshAccess())).toBe(501)
    expect(await status(daytona.volume.list())).toBe(501)
    expect(await status(daytona.create({ networkAllowList: '10.0.0.0/8' }))).toBe(403)
    expect(await status(daytona.create({ image: 'no/such:image' }))).toBe(400)
    expect(await status(daytona.create({ snapshot: 'no-such-snapshot' }))).toBe(404)
    expect(await status(daytona.create({ name: 'main' }))).toBe(409)
    for (const body of ['{', '[]', '"x"', '{"command":1}', '{"command":""}', '{"command":"a\\u0000b"}']) {
      const answer = await fetch(`${url()}/toolbox/${sandbox.id}/process/execute`, {
        method: 'POST',
        headers: { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' },
        body,
      })
      expect([body, answer.status]).toEqual([body, 400])
    }
    const form = await fetch(`${url()}/toolbox/${sandbox.id}/files/bulk-upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${daemon.key}`, 'content-type': 'multipart/form-data; boundary=x' },
      body: '--x\r\nnot a part',
    })
    expect(form.status).toBe(400)
  })

  it('transfers many files at once, and reports each failure', async () => {
    const files = Array.from({ length: 20 }, (_, index) => ({
      source: Buffer.from(`content ${index}`),
      destination: `many/${index}/file ü.txt`,
    }))
    await sandbox.fs.uploadFiles(files)
    const got = await sandbox.fs.downloadFiles([
      ...files.map(({ destination }) => ({ source: destination })),
      { source: 'many/none' },
      { source: 'many' },
    ])
    expect(got.slice(0, 20).map(({ result }) => String(result))).toEqual(
      files.map(({ source }) => String(source)),
    )
    expect(got.slice(20).map(({ errorDetails }) => errorDetails?.code)).toEqual([
      'FILE_NOT_FOUND',
      'INVALID_FILE_PATH',
    ])
    const replaced = await sandbox.fs.replaceInFiles(
      [files[3]!.destination, 'many/none'],
      'content',
      'changed',
    )
    expect(replaced.map(({ success }) => success)).toEqual([true, false])
    expect((await sandbox.fs.findFiles('many', 'changed 3'))[0]).toMatchObject({
      line: 1,
      content: 'changed 3',
    })
    await sandbox.fs.moveFiles('many/0', 'moved')
    await sandbox.fs.setFilePermissions('moved/file ü.txt', { mode: '600' })
    expect(await sandbox.fs.getFileDetails('moved/file ü.txt')).toMatchObject({
      permissions: '0600',
      isDir: false,
    })
    await sandbox.fs.deleteFile('many', true)
    expect(await status(sandbox.fs.getFileDetails('many'))).toBe(404)
  })

  it('a search finds names and contents, skips unreadable files, and is never partial', async () => {
    await sandbox.process.executeCommand(
      'mkdir -p find/a/b find/closed && echo needle > find/a/b/one.txt && touch find/two.txt find/-3.txt find/four.md && chmod 0 find/closed',
    )
    const { files } = await sandbox.fs.searchFiles('find', '*.txt')
    expect(files.sort()).toEqual(['find/-3.txt', 'find/a/b/one.txt', 'find/two.txt'])
    expect((await sandbox.fs.searchFiles('find', 'none*')).files).toEqual([])
    expect(await status(sandbox.fs.searchFiles('no-such', '*'))).toBe(404)
    expect(await sandbox.fs.findFiles('find', 'needle')).toMatchObject([
      { file: 'find/a/b/one.txt', line: 1 },
    ])
    expect(await sandbox.fs.findFiles('find', 'haystack')).toEqual([])
    await sandbox.process.executeCommand('yes needle | head -n 3000000 > find/long')
    expect(await status(sandbox.fs.findFiles('find', 'needle'))).toBe(413)
    await sandbox.process.executeCommand('chmod 755 find/closed; rm -r find')
  })

  it('input right after the start waits for the command’s turn; logs of a waiting command do not block', async () => {
    await sandbox.process.createSession('turns')
    const start = async (command: string) =>
      (await sandbox.process.executeSessionCommand('turns', { command, runAsync: true })).cmdId!
    const first = await start('read line; echo "got $line"')
    const second = await start('read line; echo "then $line"')
    expect(await sandbox.process.getSessionCommandLogs('turns', second)).toMatchObject({ stdout: '' })
    const later = sandbox.process.sendSessionCommandInput('turns', second, 'two\n')
    await sandbox.process.sendSessionCommandInput('turns', first, 'one\n')
    await later
    const text = async (id: string) => (await sandbox.process.getSessionCommandLogs('turns', id)).stdout
    await expect.poll(() => text(second)).toBe('then two\n')
    expect(await text(first)).toBe('got one\n')
    await sandbox.process.deleteSession('turns')
  })

  it('a client that leaves while its command waits does not keep the sandbox in use', async () => {
    await sandbox.process.createSession('left')
    await sandbox.process.executeSessionCommand('left', { command: 'sleep 1000', runAsync: true })
    const { live } = daemon.context
    const before = live.holds(sandbox.id)
    const leaving = new AbortController()
    const asked = fetch(`${url()}/toolbox/${sandbox.id}/process/session/left/exec`, {
      method: 'POST',
      headers: { ...auth().headers, 'content-type': 'application/json' },
      body: '{"command":"echo never"}',
      signal: leaving.signal,
    })
    await expect.poll(async () => (await sandbox.process.getSession('left')).commands?.length).toBe(2)
    await expect.poll(() => live.holds(sandbox.id)).toBeGreaterThan(before)
    leaving.abort()
    await expect(asked).rejects.toThrow()
    await expect.poll(() => live.holds(sandbox.id)).toBe(before)
    await sandbox.process.deleteSession('left')
  })

  it('git: a leading dash is not an option, and errors are reported', async () => {
    await sandbox.process.executeCommand(
      'git init -q -b main dash && cd dash && echo kept > file && git add file',
    )
    const at = `${url()}/toolbox/${sandbox.id}/git`
    const ask = async (path: string, body?: object) =>
      (
        await fetch(`${at}/${path}`, {
          method: body ? 'POST' : 'GET',
          headers: { ...auth().headers, 'content-type': 'application/json' },
          body: body && JSON.stringify(body),
        })
      ).status
    expect(await ask('config?key=--list&path=dash')).toBe(400)
    expect(await ask('config?key=user.name&scope=none')).toBe(400)
    expect(await ask('config', { path: 'dash', key: '--unset-all', value: 'x' })).toBe(400)
    expect(await ask('checkout', { path: 'dash', branch: '-f' })).toBe(400)
    expect(await ask('reset', { path: 'dash', target: '--hard' })).toBe(400)
    expect(await ask('config', { path: 'dash', key: 'user.name', value: '-n' })).toBe(200)
    expect((await sandbox.process.executeCommand('git -C dash config user.name; cat dash/file')).result).toBe(
      '-n\nkept\n',
    )
  })

  it('signed file URLs need no key, and end with the signing key and with the key that signed', async () => {
    const { key, id } = (await daemon.call('POST', '/v1/keys', { name: 'signer', scopes: ['read', 'exec'] }))
      .body
    const own = await client(key).get(sandbox.id)
    const [up, down] = [await own.uploadUrl('signed/ü +.txt'), await own.downloadUrl('signed/ü +.txt', 0)]
    const form = new FormData()
    form.append('file', new Blob(['by form']), 'x')
    expect((await fetch(up, { method: 'POST', body: form })).status).toBe(200)
    expect(await (await fetch(down)).text()).toBe('by form')
    expect((await fetch(up, { method: 'POST', body: 'as it is' })).status).toBe(200)
    expect(await (await fetch(down)).text()).toBe('as it is')
    const refused = async (address: string, method = 'GET') => (await fetch(address, { method })).status
    expect(await refused(down.replace('signed', 'other'))).toBe(401)
    expect(await refused(down.replace('expires=0', 'expires=99999999999'))).toBe(401)
    expect(await refused(down.replace('download', 'upload-v2'), 'POST')).toBe(401)
    expect(await refused(down.replace(sandbox.id, 'aaaaaaaaaaaaaaaa'))).toBe(401)
    expect(await refused(down.replace('/files/download', '/files/info'))).toBe(401)
    const reader = await client(await keyOf(undefined, ['read'])).get(sandbox.id)
    expect(await refused(await reader.uploadUrl('signed/x'), 'POST')).toBe(401)
    expect(await refused(await reader.downloadUrl('signed/ü +.txt'))).toBe(200)
    await own.rotateSigningKey()
    expect(await refused(down)).toBe(401)
    const again = await own.downloadUrl('signed/ü +.txt')
    expect(await refused(again)).toBe(200)
    await daemon.call('DELETE', `/v1/keys/${id}`)
    expect(await refused(again)).toBe(401)
  })

  it('deletes a stopped sandbox after its configured time', async () => {
    const made = await client().create({ autoDeleteInterval: 30 })
    const kept = await client().create()
    for (const one of [made, kept]) await one.stop()
    const { context } = daemon
    const { reaper } = daemon.daemon.sessions
    /** They were stopped so many minutes ago. */
    const past = async (minutes: number) => {
      for (const { id } of [made, kept])
        await context.store.sessions.update(id, undefined, { status_at: Date.now() - minutes * 60_000 })
      await reaper.run()
    }
    await past(29)
    expect((await client().get(made.id)).autoDeleteInterval).toBe(30)
    await made.setAutoDeleteInterval(60)
    await past(31)
    expect(await status(client().get(made.id))).toBe(200)
    await past(61)
    expect(await status(client().get(made.id))).toBe(404)
    expect(await status(client().get(kept.id))).toBe(200)
    await kept.delete()
  })

  it('git: clone, branch, commit, push, pull, history, remotes', async () => {
    await sandbox.process.executeCommand('git init -q --bare -b main origin.git')
    await sandbox.git.clone('origin.git', 'one')
    await sandbox.fs.uploadFile(Buffer.from('1'), 'one/a.txt')
    await sandbox.git.add('one', ['.'])
    await sandbox.git.commit('one', 'first', 'Ann', 'ann@example.com')
    await sandbox.git.push('one')
    await sandbox.git.clone('origin.git', 'two')
    await sandbox.git.createBranch('two', 'side')
    await sandbox.git.checkoutBranch('two', 'side')
    expect(await sandbox.git.status('two')).toMatchObject({ currentBranch: 'side', fileStatus: [] })
    await sandbox.fs.uploadFile(Buffer.from('2'), 'two/a.txt')
    await sandbox.fs.uploadFile(Buffer.from('3'), 'two/b.txt')
    expect((await sandbox.git.status('two')).fileStatus).toMatchObject([
      { name: 'a.txt', staging: 'Unmodified', worktree: 'Modified' },
      { name: 'b.txt', staging: 'Untracked', worktree: 'Untracked' },
    ])
    expect((await sandbox.git.branches('two')).branches).toEqual(['main', 'side'])
    await sandbox.git.pull('one')
    const code = (work: Promise<unknown>) => work.catch((error: { code?: string }) => error.code)
    expect(await code(sandbox.git.checkoutBranch('two', 'none'))).toBe('GIT_BRANCH_NOT_FOUND')
    expect(await code(sandbox.git.status('many-none'))).toBe('GIT_REPO_NOT_FOUND')
    expect(await code(sandbox.git.createBranch('two', 'side'))).toBe('GIT_BRANCH_EXISTS')
  })

  it('a terminal is listed, resized, left, found again and ended', async () => {
    let first = ''
    const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
    const onData = (bytes: Uint8Array) => {
      first += decode(bytes)
    }
    const terminal = await sandbox.process.createPty({
      id: 't1',
      cols: 90,
      rows: 20,
      envs: { MARK: 'yes' },
      onData,
    })
    await terminal.sendInput('echo $MARK-$((1+1))\n')
    await expect.poll(() => first).toContain('yes-2')
    await sandbox.process.resizePtySession('t1', 120, 40)
    await terminal.disconnect()
    expect(await sandbox.process.listPtySessions()).toMatchObject([
      { id: 't1', active: true, cols: 120, rows: 40 },
    ])
    let second = ''
    const again = await sandbox.process.connectPty('t1', {
      onData: (bytes) => {
        second += decode(bytes)
      },
    })
    await again.sendInput('stty size; exit 6\n')
    expect(await again.wait()).toMatchObject({ exitCode: 6 })
    expect(second).toContain('40 120')
    expect(await status(sandbox.process.killPtySession('none'))).toBe(404)
  })

  it('a port is open only to its token and links, which the server inside does not see', async () => {
    await sandbox.process.createSession('serve')
    const code =
      "require('http').createServer((q, s) => s.end(JSON.stringify(q.headers) + q.url)).listen(4000)"
    await sandbox.process.executeSessionCommand('serve', { command: `node -e "${code}"`, runAsync: true })
    const { url: at, token } = await sandbox.getPreviewLink(4000)
    const visit = (headers: Record<string, string>) => fetch(`${at}/x`, { headers })
    await expect.poll(async () => (await visit({ 'x-daytona-preview-token': token })).status).toBe(200)
    expect(await (await visit({ 'x-daytona-preview-token': token })).text()).not.toContain(token)
    expect((await visit({})).status).toBe(404)
    expect((await visit({ 'x-daytona-preview-token': 'l1.zzzzzz.no' })).status).toBe(404)
    expect(
      await (
        await fetch(`${url()}/api/sandbox/${sandbox.id}/public/true`, { method: 'POST', ...auth() })
      ).json(),
    ).toMatchObject({ id: sandbox.id, public: true })
    expect((await visit({})).status).toBe(200)
    await fetch(`${url()}/api/sandbox/${sandbox.id}/public/false`, { method: 'POST', ...auth() })
    expect((await visit({})).status).toBe(404)
    const signed = await sandbox.getSignedPreviewUrl(4000, 300)
    expect((await fetch(signed.url)).status).toBe(200)
    await sandbox.expireSignedPreviewUrl(4000, signed.token)
    expect((await fetch(signed.url)).status).toBe(404)
    expect(await (await fetch(`${url()}/toolbox/${sandbox.id}/port`, auth())).json()).toEqual({
      ports: [4000],
    })
    await sandbox.process.deleteSession('serve')
  })

  it('sends events of the client’s own project only, and nothing without a key', async () => {
    const other = (await daemon.call('POST', '/v1/projects', { name: 'listeners' })).body.id
    const [own, stranger] = [await listen(daemon.key), await listen(await keyOf(other, ['read']))]
    const changing = await client().create()
    await changing.stop()
    await expect
      .poll(() => own.messages.filter(([name]) => name === 'sandbox.created').map(([, { id }]) => id))
      .toEqual([changing.id])
    await expect
      .poll(() =>
        own.messages.map(([name, { sandbox: seen, newState }]) => [name, seen?.id, newState] as unknown),
      )
      .toEqual(
        expect.arrayContaining([
          ['sandbox.state.updated', changing.id, 'started'],
          ['sandbox.state.updated', changing.id, 'stopped'],
        ]),
      )
    expect(stranger.messages).toEqual([])
    await changing.delete()
    for (const { socket } of [own, stranger]) socket.close()
    await expect(listen('wrong-key-wrong')).rejects.toThrow('Unauthorized')
  })

  it('works with the SDK under its old name', async () => {
    const older = new OlderDaytona({ apiKey: daemon.key, apiUrl: `${url()}/api`, target: 'eu' })
    const made = await older.create()
    expect((await made.process.executeCommand('echo old')).result).toBe('old\n')
    await made.delete()
    await older[Symbol.asyncDispose]()
  })

  it('keeps the newest output of a session; the next command is complete again', async () => {
    await sandbox.process.createSession('loud')
    const command = 'yes 0123456789abcde | head -c 12000000; echo end; exit_code() { return 5; }; exit_code'
    const loud = await sandbox.process.executeSessionCommand('loud', { command })
    expect(loud.exitCode).toBe(5)
    expect(loud.stdout).toHaveLength(12_000_004)
    const later = await sandbox.process.getSessionCommandLogs('loud', loud.cmdId!)
    expect(later.stdout!.length).toBeLessThan(12_000_004)
    expect(later.stdout!.slice(-20)).toBe('0123456789abcde\nend\n')
    const next = await sandbox.process.executeSessionCommand('loud', {
      command: 'printf small; printf aside >&2',
    })
    expect([next.stdout, next.stderr, next.exitCode]).toEqual(['small', 'aside', 0])
    await sandbox.process.deleteSession('loud')
  })

  it('a session, its commands and its shell outlive the daemon', async () => {
    await sandbox.process.createSession('kept')
    await sandbox.process.executeSessionCommand('kept', { command: 'cd /tmp; WORD=kept; echo before' })
    const { cmdId } = await sandbox.process.executeSessionCommand('kept', {
      command: 'echo begun; read line; echo "got $line"; echo aside >&2',
      runAsync: true,
    })
    await daemon.restart()
    const again = await client().get(sandbox.id)
    expect((await again.process.getSession('kept')).commands).toHaveLength(2)
    await again.process.sendSessionCommandInput('kept', cmdId!, 'more\n')
    const seen = ['', '']
    await again.process.getSessionCommandLogs(
      'kept',
      cmdId!,
      (text) => {
        seen[0] += text
      },
      (text) => {
        seen[1] += text
      },
    )
    expect(seen).toEqual(['begun\ngot more\n', 'aside\n'])
    const next = await again.process.executeSessionCommand('kept', { command: 'echo $WORD; pwd; exit 4' })
    expect([next.stdout, next.exitCode]).toEqual(['kept\n/tmp\n', 4])
    expect(await status(again.process.executeSessionCommand('kept', { command: 'true' }))).toBe(410)
    await again.process.deleteSession('kept')
    expect(await status(again.process.getSession('kept'))).toBe(404)
  })

  const auth = () => ({ headers: { authorization: `Bearer ${daemon.key}` } })

  /** The client's socket, opened manually to see the events. */
  async function listen(token: string) {
    const socket = new WebSocket(`${url().replace('http', 'ws')}/api/socket.io/?EIO=4&transport=websocket`)
    const messages: Array<[string, { id?: string; sandbox?: { id: string }; newState?: string }]> = []
    await new Promise<void>((resolve, reject) => {
      socket.on('message', (data) => {
        const text = String(data)
        if (text.startsWith('0')) socket.send(`40${JSON.stringify({ token })}`)
        else if (text.startsWith('40')) resolve()
        else if (text.startsWith('44')) reject(new Error(JSON.parse(text.slice(2)).message))
        else if (text.startsWith('42')) messages.push(JSON.parse(text.slice(2)))
      })
      socket.on('error', reject)
    })
    return { socket, messages }
  }
})

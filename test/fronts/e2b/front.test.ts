import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import path from 'node:path'
import { promisify } from 'node:util'
import { E2B, type Sandbox } from 'e2b'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { pythonWith } from '../../python.ts'

const root = path.resolve(import.meta.dirname, '../../..')
const skipped = await isolationMissing()

/** E2B's unmodified SDK on our front: what its users do, and what the front must prevent. */
describe.skipIf(skipped !== undefined)('the front for E2B’s SDK', () => {
  let daemon: TestDaemon
  let url: string
  let e2b: E2B
  let box: Sandbox
  const client = (apiKey: string) => new E2B({ apiKey, apiUrl: url, sandboxUrl: url })
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: 'off',
      reaper_interval_seconds: 0.2,
      fronts: { e2b: { listen: '127.0.0.1:0' } },
      images: { named: 'host' },
      allowed_images: ['host', 'named'],
    })
    url = daemon.daemon.fronts.e2b!
    e2b = client(daemon.key)
    box = await e2b.Sandbox.create({ timeoutMs: 600_000 })
  })
  afterAll(() => daemon?.stop())

  const execute = promisify(execFile)
  const named = (file: string) => path.join(root, 'examples/fronts', file)
  const variables = () => ({
    PATH: process.env.PATH!,
    E2B_API_KEY: daemon.key,
    E2B_API_URL: url,
    E2B_SANDBOX_URL: url,
  })

  it('runs the quick start of its documentation with only the changes of docs/migrate-from-e2b.md', async () => {
    const page = readFileSync(path.join(root, 'docs/migrate-from-e2b.md'), 'utf8')
    const changed = [...page.matchAll(/^export (E2B_\w+)=/gm)].map(([, name]) => name)
    expect(Object.keys(variables()).filter((name) => name.startsWith('E2B_'))).toEqual(changed)
    const { stdout } = await execute(process.execPath, [named('e2b.ts')], { cwd: root, env: variables() })
    expect(stdout).toBe(readFileSync(named('e2b.out'), 'utf8'))
  })

  it('runs the example of our provider', async () => {
    const args = ['--conditions=sandkasten-source', named('e2b-provider.ts')]
    const { stdout } = await execute(process.execPath, args, { cwd: root, env: variables() })
    expect(stdout).toBe(readFileSync(named('e2b-provider.out'), 'utf8'))
  })

  // The older one sends allow_internet_access with every create, and accepts only keys in the vendor's form.
  it.for(['2.63.0', '2.45.1'])(
    'runs the quick start of its Python package %s',
    { timeout: 300_000 },
    async (version, { skip }) => {
      const found = await pythonWith(`e2b==${version}`)
      if ('missing' in found) return skip(found.missing)
      const key = `e2b_${Buffer.from(daemon.key).toString('hex')}`
      const env = { ...variables(), E2B_API_KEY: key }
      const { stdout } = await execute(found.python, [named('e2b_quickstart.py')], { env })
      expect(stdout).toBe(readFileSync(named('e2b_quickstart.out'), 'utf8'))
    },
  )

  describe('access', () => {
    it('accepts our keys, also in the form that older SDKs require', async () => {
      const hex = `e2b_${Buffer.from(daemon.key).toString('hex')}`
      expect(hex).toMatch(/^e2b_[0-9a-f]+$/)
      expect((await client(hex).Sandbox.getInfo(box.sandboxId)).sandboxId).toBe(box.sandboxId)
      for (const key of ['wrong-key', 'e2b_00', ''])
        await expect(
          client(key || 'none')
            .Sandbox.list()
            .nextItems(),
        ).rejects.toMatchObject({
          name: 'AuthenticationError',
        })
    })

    it('separates projects: hides another project’s sandbox', async () => {
      const project = await daemon.call('POST', '/v1/projects', { name: 'other' })
      const { body } = await daemon.call('POST', '/v1/keys', {
        name: 'k',
        scopes: ['exec'],
        project_id: project.body.id,
      })
      const other = client(body.key)
      await expect(other.Sandbox.getInfo(box.sandboxId)).rejects.toMatchObject({
        name: 'SandboxNotFoundError',
      })
      await expect(other.Sandbox.connect(box.sandboxId)).rejects.toMatchObject({
        name: 'SandboxNotFoundError',
      })
      expect(await other.Sandbox.kill(box.sandboxId)).toBe(false)
      expect(await other.Sandbox.list().nextItems()).toEqual([])
      const own = await other.Sandbox.create()
      const { envdAccessToken } = own as unknown as { envdAccessToken: string }
      const headers = { 'x-access-token': envdAccessToken, 'e2b-sandbox-id': box.sandboxId }
      const [known, unknown] = await Promise.all(
        [box.sandboxId, 'aaaaaaaaaaaaaaaa'].map((id) =>
          fetch(`${url}/files?path=x`, { headers: { ...headers, 'e2b-sandbox-id': id } }),
        ),
      )
      expect([known!.status, unknown!.status]).toEqual([401, 401])
      expect(await known!.text()).toBe(await unknown!.text())
      await own.kill()
    })

    it('enforces scopes, and a revoked key invalidates its tokens', async () => {
      const make = async (scope: string) =>
        (await daemon.call('POST', '/v1/keys', { name: scope, scopes: [scope] })).body
      const reader = client((await make('read')).key)
      expect((await reader.Sandbox.getInfo(box.sandboxId)).state).toBe('running')
      await expect(reader.Sandbox.create()).rejects.toMatchObject({ statusCode: 403 })
      await expect(reader.Sandbox.connect(box.sandboxId)).rejects.toMatchObject({ statusCode: 403 })
      const worker = await make('exec')
      const connected = await client(worker.key).Sandbox.connect(box.sandboxId)
      expect((await connected.commands.run('echo in')).stdout).toBe('in\n')
      const signed = await connected.downloadUrl('/etc/hostname')
      expect((await fetch(signed)).status).toBe(200)
      await daemon.call('DELETE', `/v1/keys/${worker.id}`)
      await expect(connected.commands.run('echo in')).rejects.toMatchObject({ name: 'AuthenticationError' })
      expect((await fetch(signed)).status).toBe(401)
      const { body } = await daemon.call('GET', '/v1/audit?limit=200')
      expect(body.entries.map(({ action }: { action: string }) => action)).toContain(
        'e2b POST /process.Process/Start',
      )
    })
  })

  describe('processes', () => {
    it('streams both outputs, accepts input, and reports the exit', async () => {
      const seen: string[] = []
      const handle = await box.commands.run(
        'while read line; do echo "got $line"; echo "$line" >&2; done; exit 5',
        {
          background: true,
          stdin: true,
          timeoutMs: 0,
          onStdout: (text) => void seen.push(text),
        },
      )
      await handle.sendStdin('one\n')
      await expect.poll(() => seen.join('')).toBe('got one\n')
      expect((await box.commands.list()).map(({ pid }) => pid)).toContain(handle.pid)
      const other = await box.commands.connect(handle.pid)
      await handle.closeStdin()
      const end = { name: 'CommandExitError', exitCode: 5, stdout: 'got one\n', stderr: 'one\n' }
      await expect(handle.wait()).rejects.toMatchObject(end)
      await expect(other.wait()).rejects.toMatchObject(end)
      expect(await box.commands.kill(handle.pid)).toBe(false)
      await expect(box.commands.connect(12_345)).rejects.toMatchObject({ name: 'NotFoundError' })
    })

    it('keeps running after its client has left, and is killed at its timeout', async () => {
      const handle = await box.commands.run('sleep 1000000', { background: true, timeoutMs: 0 })
      await handle.disconnect()
      expect((await box.commands.list()).map(({ pid }) => pid)).toContain(handle.pid)
      expect(await box.commands.kill(handle.pid)).toBe(true)
      await expect
        .poll(async () => (await box.commands.list()).some(({ pid }) => pid === handle.pid))
        .toBe(false)
      await expect(
        box.commands.run('echo $$ > pid; exec sleep 1000000', { timeoutMs: 1500 }),
      ).rejects.toMatchObject({
        name: 'TimeoutError',
      })
      const pid = (await box.files.read('pid')).trim()
      await expect
        .poll(
          async () => (await box.commands.run(`kill -0 ${pid} 2>/dev/null && echo runs || echo gone`)).stdout,
        )
        .toBe('gone\n')
    })

    it('rejects invalid requests in the vendor’s words', async () => {
      await expect(box.commands.run('true', { cwd: '/no/such' })).rejects.toMatchObject({
        name: 'InvalidArgumentError',
      })
      await expect(box.commands.run('true', { user: 'root' })).rejects.toMatchObject({
        name: 'InvalidArgumentError',
      })
      await expect(box.pty.sendInput(1, new Uint8Array([10]))).rejects.toMatchObject({
        name: 'NotFoundError',
      })
    })

    it('has terminals with a size, which are found again by pid', async () => {
      let screen = ''
      const onData = (data: Uint8Array) => {
        screen += Buffer.from(data)
      }
      const pty = await box.pty.create({ cols: 91, rows: 17, onData, timeoutMs: 0 })
      const type = (text: string) => box.pty.sendInput(pty.pid, new TextEncoder().encode(text))
      await type('stty size\n')
      await expect.poll(() => screen).toContain('17 91')
      await box.pty.resize(pty.pid, { cols: 44, rows: 33 })
      await pty.disconnect()
      const again = await box.pty.connect(pty.pid, { onData, timeoutMs: 0 })
      await type('stty size; exit 6\n')
      await expect.poll(() => screen).toContain('33 44')
      await expect(again.wait()).rejects.toMatchObject({ exitCode: 6 })
    })
  })

  describe('files', () => {
    it('writes single files, many, streams and compressed ones, and reads them in every form', async () => {
      await box.files.write('deep/er/a.txt', 'text')
      await box.files.write([
        { path: 'many/"one"', data: 'one' },
        { path: 'many/two', data: new Blob(['two']) },
      ])
      const block = new Uint8Array(1_000_000).fill(7)
      await box.files.write('big', new Blob([block, block, block]).stream())
      await box.files.write('zipped', 'z'.repeat(100_000), { gzip: true })
      await box.files.write('empty', '')
      expect(await box.files.read('deep/er/a.txt')).toBe('text')
      expect(await box.files.read('many/"one"')).toBe('one')
      expect((await box.files.read('big', { format: 'bytes' })).byteLength).toBe(3_000_000)
      expect((await box.files.read('zipped', { gzip: true })).length).toBe(100_000)
      expect(await box.files.read('empty')).toBe('')
      expect(await new Response(await box.files.read('many/two', { format: 'stream' })).text()).toBe('two')
      expect(Number((await box.files.read('/proc/self/stat')).split(' ')[0])).toBeGreaterThan(0)
      await expect(box.files.read('none')).rejects.toMatchObject({ name: 'FileNotFoundError' })
      await expect(box.files.read('deep')).rejects.toMatchObject({ name: 'InvalidArgumentError' })
    })

    it('lists, moves, removes, describes files and keeps their metadata', async () => {
      await box.files.write('facts/a', '12345', { metadata: { kind: 'note' } })
      expect(await box.files.makeDir('facts/dir/inner')).toBe(true)
      expect(await box.files.makeDir('facts/dir/inner')).toBe(false)
      await box.commands.run('ln -s a facts/link')
      const all = await box.files.list('facts', { depth: 2 })
      expect(all.map(({ name, type }) => [name, type])).toEqual([
        ['a', 'file'],
        ['dir', 'dir'],
        ['inner', 'dir'],
        ['link', 'symlink'],
      ])
      expect(await box.files.getInfo('facts/a')).toMatchObject({
        size: 5,
        mode: 0o644,
        metadata: { kind: 'note' },
      })
      expect((await box.files.rename('facts/a', 'facts/new/b')).metadata).toEqual({ kind: 'note' })
      expect([await box.files.exists('facts/a'), await box.files.exists('facts/new/b')]).toEqual([
        false,
        true,
      ])
      await box.files.remove('facts')
      expect(await box.files.exists('facts')).toBe(false)
      await expect(box.files.rename('none', 'x')).rejects.toMatchObject({ name: 'FileNotFoundError' })
    })

    it('reports changes', async () => {
      await box.files.makeDir('watched')
      const events: string[] = []
      const handle = await box.files.watchDir(
        'watched',
        ({ name, type, entry }) => void events.push(`${type} ${name} ${entry?.size ?? '-'}`),
        { recursive: true, includeEntry: true, timeoutMs: 0 },
      )
      await box.files.write('watched/deep/file', 'four')
      await expect.poll(() => events).toContain('create deep/file 4')
      expect(events.filter((event) => event.includes('.part'))).toEqual([])
      await handle.stop()
      await expect(box.files.watchDir('none', () => {})).rejects.toMatchObject({ name: 'FileNotFoundError' })
    })

    it('a truncated form keeps the old content and blocks nothing', async () => {
      await box.files.write('form', 'old')
      const upload = new URL(await box.uploadUrl('form'))
      const sending = request(upload, {
        method: 'POST',
        headers: { 'content-type': 'multipart/form-data; boundary=x', 'transfer-encoding': 'chunked' },
      })
      sending.on('error', () => {})
      const head = '--x\r\ncontent-disposition: form-data; name="file"; filename="form"\r\n\r\n'
      await new Promise((resolve) => sending.write(`${head}${'new '.repeat(50_000)}`, resolve))
      const watched = () => box.commands.run('ls -a | grep -c "part$" || true')
      await expect.poll(async () => (await watched()).stdout).toBe('1\n')
      sending.destroy()
      await expect.poll(async () => (await watched()).stdout).toBe('0\n')
      expect(await box.files.read('form')).toBe('old')
    })

    it('opens one file with its signed URL until it expires', async () => {
      await box.files.write('shared', 'for you')
      expect(await (await fetch(await box.downloadUrl('shared'))).text()).toBe('for you')
      const form = new FormData()
      form.append('file', new Blob(['from outside']), 'ignored')
      const upload = await box.uploadUrl('inbox', { useSignatureExpiration: 600 })
      expect((await fetch(upload, { method: 'POST', body: form })).status).toBe(200)
      expect(await box.files.read('inbox')).toBe('from outside')
      const other = new URL(await box.downloadUrl('shared'))
      other.searchParams.set('path', '/etc/passwd')
      expect((await fetch(other)).status).toBe(401)
      const late = new URL(await box.downloadUrl('shared', { useSignatureExpiration: -10 }))
      expect((await fetch(late)).status).toBe(401)
      late.searchParams.set('signature_expiration', '99999999999')
      expect((await fetch(late)).status).toBe(401)
    })
  })

  describe('life', () => {
    it('ends at its timeout, which can be raised and lowered', async () => {
      const own = await e2b.Sandbox.create({ timeoutMs: 600_000 })
      const end = async () => (await own.getInfo()).endAt.getTime() - Date.now()
      await own.setTimeout(3_600_000)
      expect(Math.abs((await end()) - 3_600_000)).toBeLessThan(60_000)
      await own.setTimeout(1000)
      await expect.poll(() => own.isRunning()).toBe(false)
      expect(await own.kill()).toBe(false)
      await expect(own.files.read('x')).rejects.toMatchObject({ name: 'TimeoutError' })
    })

    it('pauses with or without its memory, and connect resumes it', async () => {
      const own = await e2b.Sandbox.create({ timeoutMs: 600_000 })
      const counter = 'i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.05; done'
      const handle = await own.commands.run(counter, { background: true, timeoutMs: 0 })
      await expect.poll(() => own.files.exists('count')).toBe(true)
      expect([await own.pause(), await own.pause(), await own.isRunning()]).toEqual([true, false, false])
      expect((await own.getInfo()).state).toBe('paused')
      await own.connect()
      expect((await own.commands.list()).map(({ pid }) => pid)).toEqual([handle.pid])
      await own.pause({ keepMemory: false })
      const again = await e2b.Sandbox.connect(own.sandboxId)
      expect(await again.commands.list()).toEqual([])
      expect(Number(await again.files.read('count'))).toBeGreaterThan(0)
      await again.kill()
    })

    it('is paused at its timeout on request, and woken by use', async () => {
      const own = await e2b.Sandbox.create({
        timeoutMs: 1000,
        lifecycle: { onTimeout: 'pause', autoResume: true },
      })
      await own.files.write('note', 'kept')
      await expect.poll(async () => (await own.getInfo()).state).toBe('paused')
      expect(await own.files.read('note')).toBe('kept')
      const { state, endAt } = await own.getInfo()
      expect([state, endAt.getTime() > Date.now() + 200_000]).toEqual(['running', true])
      await own.kill()
    })

    it('creates snapshots by id and by name, forks, and templates that are images', async () => {
      const own = await e2b.Sandbox.create('named', { metadata: { of: 'snapshots' } })
      await own.files.write('note', 'then')
      const snapshot = await own.createSnapshot({ name: 'my-snapshot' })
      await own.files.write('note', 'later')
      for (const from of [snapshot.snapshotId, 'my-snapshot']) {
        const copy = await e2b.Sandbox.create(from)
        expect(await copy.files.read('note')).toBe('then')
        await copy.kill()
      }
      expect(await own.listSnapshots().nextItems()).toEqual([snapshot])
      const forks = (await own.fork({ count: 2 })) as Sandbox[]
      for (const fork of forks) {
        expect(await fork.files.read('note')).toBe('later')
        expect((await fork.getInfo()).metadata).toEqual({ of: 'snapshots' })
        await fork.kill()
      }
      expect(await e2b.Sandbox.deleteSnapshot(snapshot.snapshotId)).toBe(true)
      expect(await e2b.Sandbox.deleteSnapshot(snapshot.snapshotId)).toBe(false)
      expect((await own.getInfo()).templateId).toBe('named')
      await expect(e2b.Sandbox.create('no-such')).rejects.toMatchObject({ statusCode: 404 })
      await own.kill()
    })

    it('lists in pages, in both orders, by metadata, state and template', async () => {
      const metadata = { list: 'a b&c=ü%20' }
      const made: Sandbox[] = []
      for (let count = 0; count < 3; count += 1) made.push(await e2b.Sandbox.create({ metadata }))
      await made[1]!.pause()
      const ids = async (options: Parameters<typeof e2b.Sandbox.list>[0]) => {
        const pages = e2b.Sandbox.list({ limit: 2, ...options, query: { metadata, ...options?.query } })
        const all: string[][] = []
        while (pages.hasNext) all.push((await pages.nextItems()).map(({ sandboxId }) => sandboxId))
        return all
      }
      const [first, second, third] = made.map(({ sandboxId }) => sandboxId)
      expect(await ids({})).toEqual([[third, second], [first]])
      expect(await ids({ order: 'asc' })).toEqual([[first, second], [third]])
      expect(await ids({ query: { state: ['paused'] } })).toEqual([[second]])
      expect(await ids({ query: { template: 'named' } })).toEqual([[]])
      expect(await ids({ query: { startedAfter: new Date(Date.now() + 60_000) } })).toEqual([[]])
      for (const one of made) await one.kill()
    })

    it('reports its usage and its events', async () => {
      const [metric] = await box.getMetrics()
      expect(metric).toMatchObject({ cpuCount: 1, memTotal: 512 * 1_048_576 })
      expect(metric!.memUsed).toBeGreaterThan(0)
      const headers = { 'x-api-key': daemon.key }
      // biome-ignore lint/suspicious/noExplicitAny: looked into.
      const logs: any = await (await fetch(`${url}/sandboxes/${box.sandboxId}/logs`, { headers })).json()
      expect(logs.logs[0].line).toBe('session.running')
    })

    it('reports unsupported features', async () => {
      const refused = [
        { network: { egressProxy: { address: 'proxy:1080' } } },
        { volumeMounts: { '/data': 'volume' } },
      ]
      for (const options of refused)
        await expect(e2b.Sandbox.create(options)).rejects.toMatchObject({ statusCode: 400 })
      // Neither open nor policies are allowed here.
      for (const denyOut of [[], ['0.0.0.0/0']])
        await expect(
          e2b.Sandbox.create({ network: { allowOut: ['1.1.1.1'], denyOut } }),
        ).rejects.toMatchObject({ statusCode: 403 })
      await expect(box.updateNetwork({ allowInternetAccess: true })).rejects.toMatchObject({
        statusCode: 403,
      })
      await box.updateNetwork({ allowInternetAccess: false })
      await expect(box.updateNetwork({ denyOut: ['10.0.0.0/8'] })).rejects.toMatchObject({ statusCode: 400 })
      const answer = await fetch(`${url}/v3/templates`, {
        method: 'POST',
        headers: { 'x-api-key': daemon.key },
      })
      expect([answer.status, ((await answer.json()) as { code: number }).code]).toEqual([501, 501])
    })
  })

  it('limits the vendor’s default of internet access to what is allowed here, and reports it', async () => {
    const answer = await fetch(`${url}/sandboxes`, {
      method: 'POST',
      headers: { 'x-api-key': daemon.key, 'content-type': 'application/json' },
      body: JSON.stringify({ templateID: 'base', allow_internet_access: true }),
    })
    expect([answer.status, answer.headers.get('x-sandkasten-note')]).toEqual([
      201,
      'no internet access: the network open is not allowed here',
    ])
    const { sandboxID: id } = (await answer.json()) as { sandboxID: string }
    const detail = await fetch(`${url}/sandboxes/${id}`, { headers: { 'x-api-key': daemon.key } })
    expect(await detail.json()).toMatchObject({ allowInternetAccess: false })
    await e2b.Sandbox.kill(id)
  })

  it('has the account user with its home, which snapshots and restarts keep', async () => {
    const look =
      'whoami; id -gn; pwd; echo "$HOME"; echo ~; stat -c "%U:%G" /home/user; touch ~/own && stat -c %U ~/own'
    const seen = 'user\nuser\n/home/user\n/home/user\n/home/user\nuser:user\nuser\n'
    const first = await e2b.Sandbox.create()
    expect((await first.commands.run(look)).stdout).toBe(seen)
    expect((await first.commands.run(look, { user: 'user', cwd: '/home/user' })).stdout).toBe(seen)
    expect((await first.files.write('notes.txt', 'kept')).path).toBe('/home/user/notes.txt')
    const { snapshotId } = await first.createSnapshot()
    const copy = await e2b.Sandbox.create(snapshotId)
    expect((await copy.commands.run(`${look}; cat notes.txt`)).stdout).toBe(`${seen}kept`)
    await first.pause({ keepMemory: false } as never)
    const again = await e2b.Sandbox.connect(first.sandboxId)
    expect((await again.commands.run(look)).stdout).toBe(seen)
    // Only the runner is root in a sandbox.
    await expect(again.commands.run('id', { user: 'root' })).rejects.toThrow('There is no user')
    for (const one of [copy, again]) await one.kill()
    // Sessions of the daemon's own API are not affected.
    const own = await daemon.session()
    const { body } = await daemon.call('POST', `/v1/sessions/${own}/run`, { cmd: 'whoami' })
    expect(body.stdout).toBe('sandbox\n')
  })

  it('survives a restart of the daemon, with processes and tokens', async () => {
    const handle = await box.commands.run('sleep 1000000', { background: true, timeoutMs: 0 })
    handle.wait().catch(() => {})
    await box.files.write('note', 'kept')
    await daemon.restart()
    url = daemon.daemon.fronts.e2b!
    e2b = client(daemon.key)
    box = await e2b.Sandbox.connect(box.sandboxId)
    expect(await box.files.read('note')).toBe('kept')
    expect((await box.commands.list()).map(({ pid }) => pid)).toContain(handle.pid)
    const again = await box.commands.connect(handle.pid)
    expect(await again.kill()).toBe(true)
    await expect(again.wait()).rejects.toMatchObject({ exitCode: -1 })
  })
})

if (skipped !== undefined) it('the front for E2B’s SDK', ({ skip }) => skip(skipped))

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import {
  ConnectionConfig,
  Sandbox,
  SandboxApiException,
  type SandboxCreateOptions,
  SandboxManager,
} from '@alibaba-group/opensandbox'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const root = path.resolve(import.meta.dirname, '../../..')
const missing = await isolationMissing()

/** The vendor's own SDK, unmodified, against the front. */
describe.skipIf(missing)(`the front of OpenSandbox${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let config: ConnectionConfig
  let manager: SandboxManager
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { opensandbox: { listen: '127.0.0.1:0' } },
      images: { ubuntu: 'host' },
      allowed_images: ['host', 'ubuntu'],
      reaper_interval_seconds: 0.25,
    })
    config = new ConnectionConfig({ domain: front(), apiKey: daemon.key, requestTimeoutSeconds: 120 })
    manager = SandboxManager.create({ connectionConfig: config })
  })
  afterAll(async () => {
    await manager?.close()
    await daemon?.stop()
  })

  const front = () => daemon.daemon.fronts.opensandbox!
  const create = (options: Partial<SandboxCreateOptions> = {}) =>
    Sandbox.create({
      connectionConfig: config,
      ...(options.snapshotId ? {} : { image: 'host' }),
      readyTimeoutSeconds: 60,
      ...options,
    })
  const within = async (
    work: (sandbox: Sandbox) => Promise<void>,
    options?: Partial<SandboxCreateOptions>,
  ) => {
    const sandbox = await create(options)
    try {
      await work(sandbox)
    } finally {
      await manager.killSandbox(sandbox.id).catch(() => {})
      await sandbox.close()
    }
  }
  const refused = async (work: Promise<unknown>) => {
    const error = await work.then(
      () => undefined,
      (error: unknown) => error,
    )
    if (!(error instanceof SandboxApiException)) throw error ?? new Error('It was not refused.')
    expect(error.requestId).toMatch(/^[\w-]{36}$/)
    return [error.statusCode, error.error.code]
  }
  const textOf = (messages: Array<{ text: string }>) => messages.map(({ text }) => text)

  it.each(['opensandbox', 'migrate-from-opensandbox'])(
    'examples/fronts/%s.ts prints its .out file',
    async (name) => {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=sandkasten-source', path.join(root, `examples/fronts/${name}.ts`)],
        {
          cwd: root,
          env: {
            PATH: process.env.PATH,
            OPEN_SANDBOX_DOMAIN: front().replace('http://', ''),
            OPEN_SANDBOX_API_KEY: daemon.key,
          },
        },
      )
      expect(stdout).toBe(readFileSync(path.join(root, `examples/fronts/${name}.out`), 'utf8'))
    },
  )

  it('a sandbox is a session with the requested options; unsupported ones are rejected, and leave nothing', async () => {
    await within(
      async ({ id }) => {
        const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
        expect(body).toMatchObject({
          limits: { cpu: 0.5, memory_mb: 256 },
          labels: { name: 'mine' },
          env_names: ['TOKEN'],
          network_mode: 'none',
          lifetime_seconds: 90,
          on_lifetime: 'destroy',
        })
      },
      {
        resource: { cpu: '500m', memory: '256Mi' },
        metadata: { name: 'mine' },
        env: { TOKEN: 'x' },
        networkPolicy: { defaultAction: 'deny' },
        timeoutSeconds: 90,
      },
    )
    const unsupported = [501, 'SANDBOX::API_NOT_SUPPORTED']
    const invalid = [400, 'SANDBOX::INVALID_PARAMETER']
    const cases: Array<[Partial<SandboxCreateOptions>, unknown[]]> = [
      [{ volumes: [{ name: 'v', host: { path: '/etc' }, mountPath: '/mnt', readOnly: true }] }, unsupported],
      [{ credentialProxy: { enabled: true } }, unsupported],
      [{ networkPolicy: { egress: [{ action: 'allow', target: 'example.com' }] } }, [403, 'FORBIDDEN']],
      [{ resource: { cpu: '1', gpu: '1' } }, unsupported],
      [{ extensions: { poolRef: 'pool' } }, unsupported],
      [{ image: { uri: 'host', auth: { username: 'u', password: 'p' } } }, unsupported],
      [{ networkPolicy: { defaultAction: 'allow' } }, [403, 'FORBIDDEN']],
      [{ resource: { memory: 'much' } }, invalid],
      [{ resource: { memory: '900Gi' } }, invalid],
      [{ platform: { os: 'windows', arch: 'amd64' } }, invalid],
      [{ image: 'nowhere/nothing' }, invalid],
      [{ entrypoint: ['/no/such/program'] }, [404, 'SANDBOX::INVALID_PARAMETER']],
      [{ metadata: { 'opensandbox.io/x': 'y' } }, [400, 'SANDBOX::INVALID_METADATA_LABEL']],
      [{ snapshotId: 'none', image: undefined }, [404, 'NOT_FOUND']],
    ]
    for (const [options, answer] of cases)
      expect(await refused(create(options)), JSON.stringify(options)).toEqual(answer)
    expect((await manager.listSandboxInfos()).items).toEqual([])
  })

  it('lists by page, state and metadata; metadata is patched', async () => {
    const made: Sandbox[] = []
    for (const team of ['red', 'red', 'b +ü=%']) made.push(await create({ metadata: { team } }))
    const [first] = made
    await manager.pauseSandbox(first!.id)
    const page = await manager.listSandboxInfos({ pageSize: 2 })
    expect(page.items.map(({ id }) => id)).toEqual([made[2]!.id, made[1]!.id])
    expect(page.pagination).toEqual({ page: 1, pageSize: 2, totalItems: 3, totalPages: 2, hasNextPage: true })
    const ids = async (filter: Parameters<typeof manager.listSandboxInfos>[0]) =>
      (await manager.listSandboxInfos(filter)).items.map(({ id }) => id)
    expect(await ids({ pageSize: 2, page: 2 })).toEqual([first!.id])
    expect(await ids({ states: ['Paused'] })).toEqual([first!.id])
    expect(await ids({ states: ['Terminated'] })).toEqual([])
    expect(await ids({ metadata: { team: 'b +ü=%' } })).toEqual([made[2]!.id])
    expect(await ids({ metadata: { team: 'red' }, states: ['Running'] })).toEqual([made[1]!.id])
    const patched = await first!.patchMetadata({ team: null, owner: 'ann' })
    expect(patched.metadata).toEqual({ owner: 'ann' })
    expect(await refused(manager.listSandboxInfos({ pageSize: 0 }))).toEqual([
      400,
      'SANDBOX::INVALID_PARAMETER',
    ])
    for (const sandbox of made) {
      await manager.killSandbox(sandbox.id)
      await sandbox.close()
    }
    expect(await refused(manager.killSandbox(first!.id))).toEqual([404, 'NOT_FOUND'])
  })

  it('a timeout ends a sandbox and can be renewed; without one it does not expire', async () => {
    await within(
      async (sandbox) => {
        const before = (await sandbox.getInfo()).expiresAt!
        // Never shortened; the response has the effective time.
        expect((await sandbox.renew(30)).expiresAt).toEqual(before)
        expect((await sandbox.getInfo()).expiresAt).toEqual(before)
        const { expiresAt } = await sandbox.renew(1200)
        expect(expiresAt!.getTime() - before.getTime()).toBeGreaterThan(500_000)
        expect((await sandbox.getInfo()).expiresAt).toEqual(expiresAt)
        expect(await refused(manager.resumeSandbox(sandbox.id))).toEqual([409, 'CONFLICT'])
        await sandbox.pause()
        expect(await refused(sandbox.pause())).toEqual([409, 'CONFLICT'])
        expect(await refused(sandbox.commands.run('true'))).toEqual([409, 'CONFLICT'])
        expect(await sandbox.isHealthy()).toBe(false)
        expect(await refused(manager.createSnapshot(sandbox.id))).toEqual([409, 'CONFLICT'])
      },
      { timeoutSeconds: 600 },
    )
    await within(
      async (sandbox) => {
        expect((await sandbox.getInfo()).expiresAt ?? null).toBe(null)
        expect(await refused(sandbox.renew(1200))).toEqual([409, 'CONFLICT'])
      },
      { timeoutSeconds: null },
    )
    const brief = await create({ timeoutSeconds: 1, skipHealthCheck: true })
    await expect.poll(() => refused(brief.getInfo()).catch(() => undefined)).toEqual([404, 'NOT_FOUND'])
    await brief.close()
  })

  it('runs commands: lines, exit codes, environment, directory, time', async () => {
    await within(
      async ({ commands }) => {
        const run = await commands.run("printf 'a\\n\\nb\\r\\nü\\nend'; echo e >&2; exit 7")
        expect([textOf(run.logs.stdout), textOf(run.logs.stderr), run.exitCode]).toEqual([
          ['a', '\n', 'b', 'ü', 'end'],
          ['e'],
          7,
        ])
        expect(run.error).toMatchObject({
          name: 'CommandExecError',
          value: '7',
          traceback: ['exit status 7'],
        })
        const options = { workingDirectory: '/usr', envs: { WHO: "it's $me" } }
        const env = await commands.run('echo "$WHO $SHARED $PWD"; cat', options)
        expect([textOf(env.logs.stdout), env.exitCode]).toEqual([["it's $me all /usr"], 0])
        expect(env.complete!.executionTimeMs).toBeGreaterThanOrEqual(0)
        const late = await commands.run('echo begun; sleep 600', { timeoutSeconds: 1 })
        expect([textOf(late.logs.stdout), late.exitCode]).toEqual([['begun'], 143])
        expect(late.error!.traceback).toEqual(['command timed out'])
        const much = await commands.run('seq 50000')
        expect(much.logs.stdout.length).toBe(50_000)
        expect(much.logs.stdout.at(-1)!.text).toBe('50000')
        expect(await refused(commands.run('true', { workingDirectory: '/nowhere' }))).toEqual([
          400,
          'INVALID_REQUEST_BODY',
        ])
        expect(await refused(commands.run('true', { uid: 0 }))).toEqual([501, 'NOT_SUPPORTED'])
        expect(await refused(commands.getCommandStatus('none'))).toEqual([404, 'INVALID_REQUEST_BODY'])
      },
      { env: { SHARED: 'all' }, entrypoint: ['sleep', '600'] },
    )
  })

  it('commands in the background: state, logs, interruption', async () => {
    await within(async ({ commands }) => {
      const other = await commands.run('echo one; sleep 600; echo two', { background: true })
      const started = await commands.getCommandStatus(other.id!)
      expect([started.running, started.content, started.exitCode]).toEqual([
        true,
        'echo one; sleep 600; echo two',
        null,
      ])
      let logs = await commands.getBackgroundCommandLogs(other.id!)
      while (logs.content === '') logs = await commands.getBackgroundCommandLogs(other.id!, logs.cursor)
      expect(logs.content).toBe('one\n')
      expect((await commands.getBackgroundCommandLogs(other.id!, logs.cursor)).content).toBe('')
      await commands.interrupt(other.id!)
      const ended = await commands.getCommandStatus(other.id!)
      expect([ended.running, ended.exitCode]).toEqual([false, 143])
      expect((await commands.getBackgroundCommandLogs(other.id!)).content).toBe('one\n')
      // A command with endless output can be read, chunk by chunk.
      const busy = await commands.run('while :; do echo again; done', { background: true })
      let [heard, cursor] = ['', 0 as number | undefined]
      for (let times = 0; times < 3; times += 1) {
        const some = await commands.getBackgroundCommandLogs(busy.id!, cursor)
        heard += some.content
        cursor = some.cursor
      }
      expect(heard.slice(0, 12)).toBe('again\nagain\n')
      await commands.interrupt(busy.id!)
      const deaf = await commands.run("trap '' TERM; while :; do sleep 1; done", { background: true })
      await commands.interrupt(deaf.id!)
      await expect.poll(async () => (await commands.getCommandStatus(deaf.id!)).running).toBe(false)
    })
  })

  it('sessions keep their state', async () => {
    await within(async ({ commands }) => {
      const session = await commands.createSession({ workingDirectory: '/usr' })
      const run = async (
        command: string,
        options?: { workingDirectory?: string; timeoutSeconds?: number },
      ) => {
        const { logs, exitCode } = await commands.runInSession(session, command, options)
        return [textOf(logs.stdout).join(), exitCode]
      }
      expect(await run('hi() { echo "hi $1"; }; X=1; pwd')).toEqual(['/usr', 0])
      expect(await run('hi "$X"; false')).toEqual(['hi 1', 1])
      expect(await run("echo 'it''s' \"$PWD\"", { workingDirectory: '/tmp' })).toEqual(['its /tmp', 0])
      expect(await run('true', { workingDirectory: '/nowhere' })).toEqual([
        expect.stringContaining('/nowhere'),
        1,
      ])
      expect((await run('sleep 600', { timeoutSeconds: 1 }))[1]).not.toBe(0)
      expect(await run('echo "$X"')).toEqual(['1', 0])
      await commands.deleteSession(session)
      expect(await refused(commands.runInSession(session, 'true'))).toEqual([404, 'CONTEXT_NOT_FOUND'])
      expect(await refused(commands.deleteSession(session))).toEqual([404, 'CONTEXT_NOT_FOUND'])
    })
  })

  it('files: streams, parts, lines, modes, moves, lists', async () => {
    await within(async ({ files, commands }) => {
      const bytes = randomBytes(3_000_000)
      const chunks = async function* () {
        for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000)
      }
      await files.writeFiles([{ path: '/tmp/a/big', data: chunks(), mode: 600 }, { path: '/tmp/a/empty' }])
      expect(Buffer.from(await files.readBytes('/tmp/a/big')).equals(bytes)).toBe(true)
      expect(await files.readFile('/tmp/a/empty')).toBe('')
      const part = await files.readBytes('/tmp/a/big', { range: 'bytes=10-19' })
      expect(Buffer.from(part).equals(bytes.subarray(10, 20))).toBe(true)
      expect((await refused(files.readBytes('/tmp/a/big', { range: 'bytes=9000000-' })))[0]).toBe(416)

      await files.writeFiles([{ path: 'lines.txt', data: '1\n2\n3\n4', mode: 644 }])
      const lines = (offset?: number, limit?: number) => files.readFile('lines.txt', { offset, limit })
      expect([await lines(2, 2), await lines(3), await lines(undefined, 1), await lines(9, 1)]).toEqual([
        '2\n3\n',
        '3\n4',
        '1\n',
        '',
      ])

      await commands.run(
        'ln -s big /tmp/a/link; mkdir -p /tmp/a/b/c; touch /tmp/a/b/c/x.txt /tmp/a/b.txt; ln -s a /tmp/way',
      )
      const info = await files.getFileInfo(['/tmp/a/big', '/tmp/a/link', 'lines.txt'])
      expect(info['/tmp/a/big']).toMatchObject({ type: 'file', size: 3_000_000, mode: 600 })
      expect(info['/tmp/a/link']).toMatchObject({ type: 'symlink' })
      expect(info['lines.txt']!.path).toMatch(/^\/.+\/lines\.txt$/)
      expect(Math.abs(info['lines.txt']!.modifiedAt!.getTime() - Date.now())).toBeLessThan(3_600_000)
      const names = async (depth?: number) =>
        (await files.listDirectory({ path: '/tmp/a', depth })).map(({ path: file }) => file.slice(7))
      expect(await names()).toEqual(['b', 'b.txt', 'big', 'empty', 'link'])
      expect(await names(2)).toEqual(['b', 'b/c', 'b.txt', 'big', 'empty', 'link'])
      expect(await names(3)).toEqual(['b', 'b/c', 'b/c/x.txt', 'b.txt', 'big', 'empty', 'link'])
      expect(await refused(files.listDirectory({ path: '/tmp/way' }))).toEqual([400, 'INVALID_FILE'])
      const found = await files.search({ path: '/tmp/a', pattern: '*.txt' })
      expect(found.map(({ path: file }) => file).sort()).toEqual(['/tmp/a/b.txt', '/tmp/a/b/c/x.txt'])

      await files.setPermissions([{ path: 'lines.txt', mode: 400 }])
      await files.moveFiles([{ src: 'lines.txt', dest: '/tmp/a/b/moved' }])
      expect((await files.getFileInfo(['/tmp/a/b/moved']))['/tmp/a/b/moved']!.mode).toBe(400)
      await files.writeFiles([
        { path: '/tmp/odd', data: Buffer.from([0xff, 0x61, 0xc3, 0xbc, 0x61]), mode: 640 },
      ])
      const change = { path: '/tmp/odd', oldContent: 'a', newContent: 'äb' }
      expect(await files.replaceContentsDetailed([change])).toEqual([{ path: '/tmp/odd', replacedCount: 2 }])
      expect(Buffer.from(await files.readBytes('/tmp/odd')).toString('hex')).toBe('ffc3a462c3bcc3a462')
      expect((await files.getFileInfo(['/tmp/odd']))['/tmp/odd']!.mode).toBe(640)

      // The SDK uses another code path for downloads and uploads.
      expect((await refused(files.readFile('/tmp/none')))[0]).toBe(404)
      expect((await refused(files.readFile('/tmp/a')))[0]).toBe(400)
      expect(await refused(files.getFileInfo(['/tmp/none']))).toEqual([404, 'FILE_NOT_FOUND'])
      expect(await refused(files.deleteFiles(['/tmp/a']))).toEqual([400, 'INVALID_FILE'])
      const owned = [{ path: '/tmp/owned', data: 'x', owner: 'root' }]
      expect((await refused(files.writeFiles(owned)))[0]).toBe(501)
      expect((await refused(files.readFile('/tmp/owned')))[0]).toBe(404)
      await files.deleteFiles(['/tmp/a/big', '/tmp/a/empty'])
      await files.deleteDirectories(['/tmp/a', '/tmp/never'])
      expect(await refused(files.listDirectory({ path: '/tmp/a' }))).toEqual([404, 'FILE_NOT_FOUND'])
    })
  })

  it('ports: public, with a header, or signed', async () => {
    const serve = async ({ commands, getEndpoint }: Sandbox) => {
      await commands.run('mkdir -p /tmp/www && echo page > /tmp/www/index.html')
      await commands.run('python3 -m http.server 8000', { background: true, workingDirectory: '/tmp/www' })
      return getEndpoint
    }
    const visit = async (endpoint: string, headers: Record<string, string> = {}) =>
      (await fetch(`http://${endpoint}/index.html`, { headers })).text()
    await within(async (sandbox) => {
      await serve(sandbox)
      const { endpoint, headers } = await sandbox.getEndpoint(8000)
      expect(headers ?? {}).toEqual({})
      await expect.poll(() => visit(endpoint)).toBe('page\n')
    })
    await within(
      async (sandbox) => {
        await serve(sandbox)
        const { endpoint, headers } = await sandbox.getEndpoint(8000)
        await expect.poll(() => visit(endpoint, headers)).toBe('page\n')
        expect((await fetch(`http://${endpoint}/index.html`)).status).toBe(404)
        const signed = await sandbox.getSignedEndpoint(8000, Math.floor(Date.now() / 1000) + 600)
        expect(await visit(signed.endpoint)).toBe('page\n')
        expect(await refused(sandbox.getSignedEndpoint(8000, 1))).toEqual([400, 'SANDBOX::INVALID_PARAMETER'])
        expect(await refused(sandbox.getEndpoint(70_000))).toEqual([400, 'SANDBOX::INVALID_PARAMETER'])
      },
      { secureAccess: true },
    )
  })

  it('reports unsupported features as OpenSandbox does', async () => {
    await within(async (sandbox) => {
      expect(await sandbox.getEgressPolicy()).toEqual({ defaultAction: 'deny', egress: [] })
      const rule = { action: 'allow', target: 'example.com' } as const
      const unsupported = [501, 'SANDBOX::API_NOT_SUPPORTED']
      expect(await refused(sandbox.patchEgressRules([rule]))).toEqual([403, 'FORBIDDEN'])
      expect(await refused(sandbox.credentialVault.get())).toEqual(unsupported)
      expect((await sandbox.isolation.capabilities()).available).toBe(false)
      await expect(sandbox.isolation.create({ workspace: { path: '/tmp' } })).rejects.toThrow('NOT_SUPPORTED')
      const metrics = await sandbox.getMetrics()
      expect(metrics).toMatchObject({ cpuCount: 1, memoryTotalMiB: 2048 })
      expect(metrics.memoryUsedMiB).toBeGreaterThan(0)
    })
  })
})

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { VercelSandboxExecutor } from '@sandkasten/sdk/executor'
import { Sandbox, Snapshot } from '@vercel/sandbox'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const root = path.resolve(import.meta.dirname, '../../..')
const missing = await isolationMissing()

/** The vendor's own SDK, unmodified, against the front. */
describe.skipIf(missing)(`the front of Vercel${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { vercel: { listen: '127.0.0.1:0' } },
      reaper_interval_seconds: 0.25,
    })
  })
  afterAll(() => daemon?.stop())

  const front = () => daemon.daemon.fronts.vercel!
  const access = (token = daemon.key) => ({
    token,
    teamId: 'team',
    projectId: 'project',
    fetch: ((url, init) =>
      fetch(String(url).replace('https://vercel.com/api', front()), init)) as typeof fetch,
  })
  const refused = async (work: Promise<unknown>) => {
    const error = (await work.then(
      () => undefined,
      (error: unknown) => error,
    )) as { response?: Response; json?: { error: { code: string } } } | undefined
    return [error?.response?.status, error?.json?.error.code]
  }

  it.each(['vercel', 'vercel-provider', 'migrate-from-vercel'])(
    'examples/fronts/%s.ts prints the content of its .out file',
    async (name) => {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=sandkasten-source', path.join(root, `examples/fronts/${name}.ts`)],
        {
          cwd: root,
          env: { PATH: process.env.PATH, SANDKASTEN_VERCEL_URL: front(), SANDKASTEN_API_KEY: daemon.key },
        },
      )
      expect(stdout).toBe(readFileSync(path.join(root, `examples/fronts/${name}.out`), 'utf8'))
    },
  )

  it('accepts the SDK’s own prefix too: then only the host is replaced', async () => {
    const sandbox = await Sandbox.create({
      ...access(),
      fetch: ((url, init) => fetch(String(url).replace('https://vercel.com', front()), init)) as typeof fetch,
    })
    expect((await sandbox.runCommand('true')).exitCode).toBe(0)
    await sandbox.delete()
  })

  it('a key sees only its project; a wrong one sees nothing; a reader may read', async () => {
    const mine = await Sandbox.create({ ...access(), name: 'mine' })
    const project = await daemon.call('POST', '/v1/projects', { name: 'other' })
    const other = await daemon.call('POST', '/v1/keys', {
      project_id: project.body.id,
      name: 'other',
      scopes: ['exec'],
    })
    expect(other.status).toBe(201)
    const stranger = access(other.body.key)
    expect(await refused(Sandbox.get({ ...stranger, name: 'mine' }))).toEqual([404, 'not_found'])
    expect((await Sandbox.list(stranger)).sandboxes).toEqual([])
    const session = mine.currentSession().sessionId
    const raw = await fetch(`${front()}/v2/sandboxes/sessions/${session}`, {
      headers: { authorization: `Bearer ${other.body.key}` },
    })
    expect(raw.status).toBe(404)
    expect(await refused(Sandbox.get({ ...access('sk-wrong-key'), name: 'mine' }))).toEqual([
      401,
      'forbidden',
    ])
    const reader = await daemon.call('POST', '/v1/keys', { name: 'reader', scopes: ['read'] })
    const looking = await Sandbox.get({ ...access(reader.body.key), name: 'mine' })
    expect(looking.status).toBe('running')
    expect((await refused(looking.runCommand('true')))[0]).toBe(403)
    await mine.stop()
    expect((await refused(Sandbox.get({ ...access(reader.body.key), name: 'mine', resume: true })))[0]).toBe(
      403,
    )
    await mine.delete()
    const audit = await daemon.call('GET', '/v1/audit?limit=20')
    expect(JSON.stringify(audit.body)).toContain('vercel DELETE /v2/sandboxes/:name')
  })

  it('names are unique; lists are filtered, sorted and paged', async () => {
    const made = []
    for (const [name, team] of [
      ['list-b', 'red'],
      ['list-a', 'red'],
      ['list-c', 'blue'],
    ] as const)
      made.push(await Sandbox.create({ ...access(), name, tags: { team } }))
    expect(await refused(Sandbox.create({ ...access(), name: 'list-a' }))).toEqual([409, 'conflict'])
    const names = async (params: object) =>
      (await (await Sandbox.list({ ...access(), ...params })).toArray()).map(({ name }) => name)
    expect(await names({ namePrefix: 'list-', sortBy: 'name', sortOrder: 'asc', limit: 2 })).toEqual([
      'list-a',
      'list-b',
      'list-c',
    ])
    expect((await names({ tags: { team: 'red' } })).sort()).toEqual(['list-a', 'list-b'])
    const [first] = made
    await first!.update({ tags: { team: 'green' }, ports: [4000] })
    expect(await names({ tags: { team: 'green' } })).toEqual(['list-b'])
    expect(first!.routes.map(({ port }) => port)).toEqual([4000])
    for (const sandbox of made) await sandbox.delete()
    expect(await names({ namePrefix: 'list-' })).toEqual([])
  })

  it('getOrCreate finds what it created, and a stopped sandbox continues with a new session', async () => {
    const log: string[] = []
    const get = () =>
      Sandbox.getOrCreate({
        ...access(),
        name: 'kept',
        resume: true,
        onCreate: async (sandbox) => {
          await sandbox.writeFiles([{ path: 'made', content: 'once' }])
          log.push('created')
        },
        onResume: async () => void log.push('resumed'),
      })
    const first = await get()
    const before = first.currentSession().sessionId
    await first.stop()
    const second = await get()
    expect(log).toEqual(['created', 'resumed'])
    expect(String(await second.readFileToBuffer({ path: 'made' }))).toBe('once')
    expect(second.currentSession().sessionId).not.toBe(before)
    expect(await refused(first.currentSession().runCommand('true'))).toEqual([410, 'sandbox_stopped'])
    await second.delete()
  })

  it('output is complete text in order, and can be read again; a timeout ends the command', async () => {
    const sandbox = await Sandbox.create(access())
    const text = 'Grüße 你好 🏖️ '.repeat(2000)
    const echo = await sandbox.runCommand({ cmd: 'cat', args: ['/dev/stdin'], env: {}, cwd: '/' })
    expect([echo.exitCode, await echo.stdout()]).toEqual([0, ''])
    await sandbox.writeFiles([{ path: 'text', content: text }])
    const command = await sandbox.runCommand({ cmd: 'cat', args: ['text'], detached: true })
    await command.wait()
    const again = await sandbox.getCommand(command.cmdId)
    expect([again.exitCode, await again.stdout()]).toEqual([0, text])
    const late = await sandbox.runCommand({ cmd: 'sleep', args: ['1000'], timeoutMs: 200 })
    expect(late.exitCode).not.toBe(0)
    expect(await refused(sandbox.runCommand('no-such-program'))).toEqual([404, 'command_not_found'])
    expect(await refused(sandbox.getCommand('cmd_none'))).toEqual([404, 'not_found'])
    await sandbox.delete()
  })

  it('the timeout ends a sandbox, extending adds to it, and the end removes a sandbox that is not persistent', async () => {
    const sandbox = await Sandbox.create({ ...access(), name: 'short', timeout: 60_000 })
    const before = sandbox.expiresAt!.getTime()
    await sandbox.extendTimeout(30_000)
    expect(Math.abs(sandbox.expiresAt!.getTime() - before - 30_000)).toBeLessThan(1000)
    const brief = await Sandbox.create({ ...access(), name: 'brief', timeout: 500, persistent: false })
    await expect
      .poll(() => refused(Sandbox.get({ ...access(), name: brief.name })))
      .toEqual([404, 'not_found'])
    await sandbox.delete()
  })

  it('snapshots are listed, expire, and are deleted with their sandbox on request', async () => {
    const sandbox = await Sandbox.create({ ...access(), name: 'saved' })
    const short = await sandbox.snapshot({ expiration: 1 })
    const long = await sandbox.snapshot()
    const ids = async () =>
      (await (await Snapshot.list({ ...access(), name: 'saved' })).toArray()).map(({ id }) => id)
    expect(await ids()).toEqual([long.snapshotId])
    expect(await refused(Snapshot.get({ ...access(), snapshotId: short.snapshotId }))).toEqual([
      404,
      'not_found',
    ])
    await sandbox.delete({ deleteOrphanSnapshots: true })
    expect(await refused(Snapshot.get({ ...access(), snapshotId: long.snapshotId }))).toEqual([
      404,
      'not_found',
    ])
  })

  it('an expired snapshot cannot be used, and is removed without a request', async () => {
    const sandbox = await Sandbox.create({ ...access(), name: 'over' })
    const [first, second] = [
      await sandbox.snapshot({ expiration: 1 }),
      await sandbox.snapshot({ expiration: 1 }),
    ]
    const source = { type: 'snapshot', snapshotId: first!.snapshotId } as const
    expect(await refused(Sandbox.create({ ...access(), source }))).toEqual([404, 'not_found'])
    const kept = async () =>
      (await daemon.call('GET', '/v1/snapshots')).body.snapshots.map(({ id }: { id: string }) => id)
    expect(await kept()).toEqual([second!.snapshotId])
    await daemon.restart()
    await expect.poll(kept).toEqual([])
    await (await Sandbox.get({ ...access(), name: 'over' })).delete()
  })

  describe('git', () => {
    /** Needs no server: git runs this line instead of ssh. Commit ids follow from the dates. */
    const env = {
      GIT_SSH_VARIANT: 'simple',
      GIT_SSH_COMMAND:
        'cd "$(mktemp -d)" && git init -q -b main && git commit -q --allow-empty -m one && git tag 20240101 && git commit -q --allow-empty -m two && git upload-pack . #',
      ...Object.fromEntries(
        ['AUTHOR', 'COMMITTER'].flatMap((who) => [
          [`GIT_${who}_NAME`, 'n'],
          [`GIT_${who}_EMAIL`, 'n@example.com'],
          [`GIT_${who}_DATE`, '2024-01-01T00:00:00Z'],
        ]),
      ),
    }
    const subject = async (revision: string | undefined, depth?: number) => {
      const git = { type: 'git', url: 'ssh://here/repo', depth } as const
      const sandbox = await Sandbox.create({
        ...access(),
        env,
        source: revision === undefined ? git : { ...git, revision },
      })
      const log = await sandbox.runCommand('git', ['log', '-1', '--format=%s %H'])
      await sandbox.delete()
      return (await log.stdout()).trim().split(' ') as [string, string]
    }

    it('a revision is a branch, a tag, or a commit by its full or short id', async () => {
      const [two] = await subject(undefined, 1)
      expect(two).toBe('two')
      expect((await subject('main'))[0]).toBe('two')
      // Digits only, but still a tag.
      const [one, id] = await subject('20240101')
      expect(one).toBe('one')
      for (const revision of [id, id.slice(0, 8)])
        expect(await subject(revision, 1), revision).toEqual(['one', id])
    })

    it('a source that does not respond is abandoned with its client, and nothing is left', async () => {
      const leaving = new AbortController()
      const asking = fetch(`${front()}/v3/sandboxes`, {
        method: 'POST',
        signal: leaving.signal,
        headers: { authorization: `Bearer ${daemon.key}` },
        body: JSON.stringify({
          name: 'left',
          env: { ...env, GIT_SSH_COMMAND: 'sleep 1000000 #' },
          source: { type: 'git', url: 'ssh://here/repo' },
        }),
      }).catch(() => {})
      const states = async () =>
        (await daemon.call('GET', '/v1/sessions?name=left')).body.sessions.map(
          ({ status }: { status: string }) => status,
        )
      await expect.poll(states).toEqual(['running'])
      leaving.abort()
      await asking
      await expect.poll(states, { timeout: 20_000 }).toEqual(['destroyed'])
    })
  })

  it('unsupported requests are rejected in the vendor’s format, once, and leave nothing', async () => {
    let requests = 0
    const counting = {
      ...access(),
      fetch: ((url, init) => {
        requests += 1
        return fetch(String(url).replace('https://vercel.com/api', front()), init)
      }) as typeof fetch,
    }
    const bad = [400, 'unsupported']
    expect(await refused(Sandbox.create({ ...counting, networkPolicy: { allow: ['example.com'] } }))).toEqual(
      [403, 'forbidden'],
    )
    expect(
      await refused(Sandbox.create({ ...counting, mounts: { '/data': { drive: 'd', mode: 'read-write' } } })),
    ).toEqual(bad)
    expect(await refused(Sandbox.create({ ...counting, networkPolicy: 'allow-all' }))).toEqual([
      403,
      'forbidden',
    ])
    expect(await refused(Sandbox.create({ ...counting, image: 'not/allowed' }))).toEqual([400, 'bad_request'])
    expect(await refused(Sandbox.create({ ...counting, region: 'fra1' }))).toEqual(bad)
    expect(await refused(Sandbox.create({ ...counting, runtime: 'node4' }))).toEqual(bad)
    expect(requests).toBe(6)
    const sandbox = await Sandbox.create(counting)
    expect(await refused(sandbox.runCommand({ cmd: 'id', sudo: true }))).toEqual(bad)
    expect(await refused(sandbox.openInteractive())).toEqual(bad)
    expect(await refused(sandbox.update({ networkPolicy: 'allow-all' }))).toEqual([403, 'forbidden'])
    await sandbox.delete()
    // The sandbox has no network: the clone fails, and its sandbox is removed.
    const source = { type: 'git', url: 'https://example.invalid/repo.git' } as const
    expect(
      (await refused(Sandbox.create({ ...access(), name: 'cloned', source })))[0],
    ).toBeGreaterThanOrEqual(400)
    expect((await Sandbox.list({ ...access(), namePrefix: 'cloned' })).sandboxes).toEqual([])
  })

  it('the executor for one conversation works on it', async () => {
    const { fetch: _, ...vercel } = access()
    const executor = new VercelSandboxExecutor({ vercel: { ...vercel, baseUrl: front() }, timeoutMs: 60_000 })
    try {
      expect(await executor.execute('python3', ['-c', 'print(6 * 7)'])).toMatchObject({
        stdout: '42\n',
        exitCode: 0,
      })
      await executor.writeFile('a/b.txt', 'text')
      expect([await executor.readFile('a/b.txt'), await executor.readFile('none')]).toEqual(['text', null])
      expect(await executor.listFiles('a')).toEqual(['b.txt'])
    } finally {
      await executor.cleanup()
    }
  })
})

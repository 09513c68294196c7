import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { spawnDaemon } from '../../src/testing/spawn-daemon.ts'

const reason = await isolationMissing()
const key = 'sk-test-0123456789abcdef'

describe.skipIf(reason)(`on isolated sandboxes${reason ? ` (skipped: ${reason})` : ''}`, () => {
  let folder: string
  let config: Record<string, unknown>
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sk-oci-'))
    config = { listen: '127.0.0.1:0', data_dir: folder, isolator: 'oci', api_key: key, log_level: 'silent' }
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('a killed daemon loses no shell, no job and no command', async () => {
    const first = await spawnDaemon(config)
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    const json = async (url: string, method: string, where: string, body?: unknown): Promise<any> => {
      const init = {
        method,
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      }
      return (await fetch(`${url}${where}`, init)).json()
    }
    const { id } = await json(first.url, 'POST', '/v1/sessions', { env: { GIVEN: 'env' } })
    const base = `/v1/sessions/${id}`
    const exec = (url: string, cmd: string, more: object = {}) =>
      json(url, 'POST', `${base}/exec`, { cmd, ...more })
    await exec(first.url, 'mkdir sub; cd sub; export A=1; f() { echo fun; }; sleep 600 & echo $! > pid')
    const wait = 'echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; cd /tmp'
    // The connection ends with the daemon, so no response arrives.
    const cut = exec(first.url, wait, { exec_id: 'in-shell' }).catch(() => 'cut')
    const run = {
      cmd: 'sh',
      args: ['-c', 'echo r1; while [ ! -e go ]; do sleep 0.05; done; echo r2'],
      cwd: 'sub',
      exec_id: 'beside',
      detach: true,
    }
    await json(first.url, 'POST', `${base}/run`, run)
    await expect
      .poll(async () => (await json(first.url, 'GET', `${base}/execs/in-shell`)).status)
      .toBe('running')
    const output = eventsOf(
      await fetch(`${first.url}${base}/execs/in-shell/output`, {
        headers: { authorization: `Bearer ${key}` },
      }),
    )
    expect((await output.next()).value.data.text).toContain('one')
    await first.end('SIGKILL')
    await cut
    await output.return(undefined).catch(() => {})

    const daemon = await startTestDaemon(config)
    try {
      const { url } = daemon.daemon
      expect(await json(url, 'GET', base)).toMatchObject({ status: 'running', incarnation: 1 })
      expect((await json(url, 'GET', `${base}/execs/in-shell`)).status).toBe('running')
      await json(url, 'POST', `${base}/fs/write`, { path: 'sub/go', content: '' })
      const shell = await json(url, 'GET', `${base}/execs/in-shell?wait_ms=30000`)
      expect(shell).toMatchObject({
        status: 'done',
        result: { exit_code: 0, output: 'one\ntwo\n', cwd: '/tmp' },
      })
      const beside = await json(url, 'GET', `${base}/execs/beside?wait_ms=30000`)
      expect(beside).toMatchObject({ status: 'done', result: { exit_code: 0, stdout: 'r1\nr2\n' } })
      expect(
        await exec(url, 'echo $A $GIVEN; f; kill -0 $(cat /workspace/sub/pid) && echo alive; pwd'),
      ).toMatchObject({
        output: '1 env\nfun\nalive\n/tmp\n',
        shell_restarted: false,
      })
    } finally {
      await daemon.stop()
    }
  })

  it('commands of a paused session survive a restart, and are followed after resume', async () => {
    const daemon: TestDaemon = await startTestDaemon(config)
    try {
      const id = await daemon.session()
      const base = `/v1/sessions/${id}`
      const post = async (where: string, body: object = {}) =>
        (await daemon.call('POST', `${base}/${where}`, body)).body
      const wait = 'echo one; while [ ! -e /workspace/go ]; do sleep 0.05; done; echo two'
      await post('run', { cmd: 'sh', args: ['-c', wait], exec_id: 'beside', detach: true })
      const inShell = post('exec', { cmd: `touch begun; ${wait}`, exec_id: 'in-shell' }).catch(() => 'cut')
      await expect
        .poll(async () => (await daemon.call('GET', `${base}/files/stat?path=begun`)).status)
        .toBe(200)
      expect(await post('pause')).toMatchObject({ status: 'paused' })
      await daemon.restart()
      await inShell
      for (const exec of ['beside', 'in-shell'])
        expect((await daemon.call('GET', `${base}/execs/${exec}`)).body.status).toBe('running')
      expect(await post('resume')).toMatchObject({ status: 'running' })
      await post('fs/write', { path: 'go', content: '' })
      const { store } = daemon.context
      // The result is written without a request for it.
      await expect.poll(async () => (await store.execs.running(id)).length).toBe(0)
      for (const [exec, name] of [
        ['beside', 'stdout'],
        ['in-shell', 'output'],
      ] as const)
        expect((await daemon.call('GET', `${base}/execs/${exec}`)).body).toMatchObject({
          status: 'done',
          result: { exit_code: 0, [name]: 'one\ntwo\n' },
        })
    } finally {
      await daemon.stop()
    }
  })

  it('pauses, resumes, counts, limits, and starts again with its disk', async () => {
    const daemon: TestDaemon = await startTestDaemon(config)
    try {
      const id = await daemon.session({ limits: { memory_mb: 128, cpu: 0.5, pids: 64 } })
      const base = `/v1/sessions/${id}`
      const post = async (where: string, body: object = {}) =>
        (await daemon.call('POST', `${base}/${where}`, body)).body
      expect(await post('exec', { cmd: 'id -u; echo kept > file' })).toMatchObject({ exit_code: 0 })
      expect(await post('pause')).toMatchObject({ status: 'paused' })
      expect(await post('exec', { cmd: 'true' })).toMatchObject({ code: 'not_running' })
      expect(await post('resume')).toMatchObject({ status: 'running', incarnation: 1 })
      const stats = (await daemon.call('GET', `${base}/stats`)).body
      expect(stats).toMatchObject({ memory_limit_bytes: 134_217_728 })
      expect(stats.pids).toBeGreaterThan(0)
      expect(await post('stop')).toMatchObject({ status: 'stopped' })
      expect(await post('start')).toMatchObject({ status: 'running', incarnation: 2 })
      expect((await post('run', { cmd: 'cat', args: ['file'] })).stdout).toBe('kept\n')
      const snapshot = await post('snapshots', { name: 's' })
      const copy = await daemon.session({ snapshot_id: snapshot.id })
      const forks = await post('fork', { count: 2 })
      for (const { id } of [{ id: copy }, ...forks.sessions])
        expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'cat file' })).body.output).toBe(
          'kept\n',
        )
      await daemon.daemon.sessions.reconciler.run()
      expect((await daemon.call('GET', '/v1/sessions?status=running')).body.sessions).toHaveLength(4)
      expect((await daemon.call('POST', '/v1/sessions', { network_mode: 'open' })).body).toMatchObject({
        code: 'forbidden',
      })
      expect((await daemon.call('POST', '/v1/sessions', { image: 'other' })).body).toMatchObject({
        code: 'invalid_argument',
      })
      expect((await daemon.call('POST', '/v1/sessions', { limits: { cpu: 999 } })).body.hint).toMatch(
        /max\.cpu_limit/,
      )
    } finally {
      await daemon.stop()
    }
  })

  it('limits disks and inodes by default', async () => {
    const small = await startTestDaemon({ ...config, defaults: { disk_limit_mb: 16 } })
    try {
      const id = await small.session()
      const run = async (cmd: string) =>
        (await small.call('POST', `/v1/sessions/${id}/run`, { cmd: 'sh', args: ['-c', cmd] })).body
      expect((await run('head -c 64M /dev/zero > full')).stderr).toContain('No space left')
      const many = `rm full; perl -e 'my $i = 0; $i++ while open(my $f, ">", "f$i"); print "$i $!"'`
      const { stdout } = await run(many)
      expect(stdout).toMatch(/^\d+ No space left/)
      expect(Number.parseInt(stdout, 10)).toBeLessThan(16_384)
    } finally {
      await small.stop()
    }
    const usual = await startTestDaemon(config)
    try {
      const { body } = await usual.call('POST', '/v1/sessions', {})
      expect(body.limits.disk_mb).toBe(10_240)
    } finally {
      await usual.stop()
    }
    const unlimited = await startTestDaemon({ ...config, defaults: { disk_limit_mb: 0 } })
    try {
      expect((await unlimited.call('POST', '/v1/sessions', {})).body.limits.disk_mb).toBeNull()
    } finally {
      await unlimited.stop()
    }
  })
})

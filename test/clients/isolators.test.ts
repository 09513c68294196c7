import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  dockerMissing,
  type PrivateDaemon,
  removeDaemonFolder,
  startDockerd,
} from '../../packages/engine/src/isolators/docker/testing/daemons.ts'

/** Beyond the kit: the configuration chooses the isolator, and a restart finds everything again. */
async function works(daemon: TestDaemon): Promise<void> {
  const id = await daemon.session({ env: { GIVEN: 'env' }, limits: { memory_mb: 128 } })
  const base = `/v1/sessions/${id}`
  const post = async (where: string, body: object = {}) =>
    (await daemon.call('POST', `${base}/${where}`, body)).body
  await post('exec', { cmd: 'cd /tmp; export A=1; echo kept > /workspace/file' })
  await post('run', { cmd: 'sleep', args: ['600'], exec_id: 'long', detach: true })
  await daemon.restart()
  expect(await post('exec', { cmd: 'echo $A $GIVEN $PWD' })).toMatchObject({ output: '1 env /tmp\n' })
  expect((await daemon.call('GET', `${base}/execs/long`)).body).toMatchObject({ status: 'running' })
  expect(await post('pause')).toMatchObject({ status: 'paused' })
  expect(await post('resume')).toMatchObject({ status: 'running' })
  const snapshot = await post('snapshots')
  const copy = await daemon.session({ snapshot_id: snapshot.id })
  expect((await daemon.call('POST', `/v1/sessions/${copy}/exec`, { cmd: 'cat file' })).body).toMatchObject({
    output: 'kept\n',
  })
  await daemon.call('DELETE', `/v1/snapshots/${snapshot.id}`)
  await daemon.call('DELETE', `/v1/sessions/${copy}`)
  expect((await daemon.call('DELETE', base)).body).toMatchObject({ destroyed: true })
}

const noDocker = dockerMissing()
describe.skipIf(noDocker)(`isolator: docker${noDocker ? ` (skipped: ${noDocker})` : ''}`, () => {
  let folder: string
  let docker: PrivateDaemon
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'skt-dd-'))
    docker = await startDockerd(folder)
  }, 120_000)
  afterAll(async () => {
    await docker?.stop()
    removeDaemonFolder(folder)
  }, 60_000)

  it('creates sessions as containers of the configured Docker daemon', async () => {
    const daemon = await startTestDaemon({
      isolator: 'docker',
      docker: { host: `unix://${docker.socketPath}` },
      run_dir: path.join(folder, 'run'),
    })
    try {
      expect(daemon.daemon.isolation).toBe('container')
      await works(daemon)
    } finally {
      await daemon.stop()
    }
  }, 180_000)

  it('reports an unreachable Docker daemon, and creates sessions once it runs', async () => {
    const host = `unix://${path.join(folder, 'none.sock')}`
    const daemon = await startTestDaemon({ isolator: 'docker', docker: { host } }).catch((error) => error)
    if (daemon instanceof Error) expect(daemon).toMatchObject({ code: 'unavailable' })
    else {
      const { status, body } = await daemon.call('POST', '/v1/sessions', {})
      expect([status, body.code], JSON.stringify(body)).toEqual([503, 'unavailable'])
      await daemon.stop()
    }
  })
})

const runc = ['/usr/sbin/runc', '/usr/bin/runc'].find((file) => existsSync(file))
const noRunc = (await isolationMissing()) ?? (runc ? undefined : 'runc is not installed')
describe.skipIf(noRunc)(`runtime: runc${noRunc ? ` (skipped: ${noRunc})` : ''}`, () => {
  it('runs the sandboxes', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'skt-runc-'))
    const runtime = path.join(folder, 'runc')
    writeFileSync(runtime, `#!/bin/sh\necho used >> ${folder}/log\nexec ${runc} "$@"\n`, { mode: 0o755 })
    const daemon = await startTestDaemon({ isolator: 'auto', runtime })
    try {
      await works(daemon)
      expect(readFileSync(path.join(folder, 'log'), 'utf8')).toMatch(/used/)
    } finally {
      await daemon.stop()
      rmSync(folder, { recursive: true })
    }
  }, 120_000)

  it('is reported if it is missing', async () => {
    const daemon = await startTestDaemon({ isolator: 'oci', runtime: 'no-such-runtime' }).catch((e) => e)
    if (daemon instanceof Error) expect(daemon.message).toMatch(/no-such-runtime/)
    else {
      expect(JSON.stringify((await daemon.call('POST', '/v1/sessions', {})).body)).toMatch(/no-such-runtime/)
      await daemon.stop()
    }
  })
})

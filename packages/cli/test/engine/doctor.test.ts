import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import {
  type DaemonOptions,
  dockerMissing,
  type PrivateDaemon,
  podmanMissing,
  removeDaemonFolder,
  startDockerd,
  startPodman,
} from '../../../engine/src/isolators/docker/testing/daemons.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')

interface Finding {
  what: string
  ok: boolean
  detail: string
  fix?: string
}

function doctor(home: string, host: string): Promise<{ findings: Finding[] }> {
  const env = {
    ...process.env,
    SANDKASTEN_HOME: home,
    SANDKASTEN_RUN_DIR: path.join(home, 'run'),
    DOCKER_HOST: host,
  }
  return new Promise((resolve) =>
    execFile(process.execPath, [bin, 'doctor', '--json'], { env, cwd: home }, (_, stdout) =>
      resolve(JSON.parse(stdout)),
    ),
  )
}

describe('sandkasten doctor', () => {
  let daemon: PrivateDaemon | undefined
  let folder: string | undefined
  afterEach(async () => {
    await daemon?.stop()
    if (folder) removeDaemonFolder(folder)
    daemon = undefined
  }, 60_000)

  async function lookAt(
    start: (folder: string, options: DaemonOptions) => Promise<PrivateDaemon>,
    options: DaemonOptions = {},
  ): Promise<Finding> {
    folder = mkdtempSync(path.join(tmpdir(), 'skt-doctor-'))
    daemon = await start(folder, options)
    const home = path.join(folder, 'home')
    mkdirSync(home)
    const { findings } = await doctor(home, `unix://${daemon.socketPath}`)
    return findings.find(({ what }) => what.startsWith('isolator docker'))!
  }

  it('reports Docker as working after a sandbox has run on it', async ({ skip }) => {
    const missing = dockerMissing()
    if (missing) skip(missing)
    expect(await lookAt(startDockerd)).toMatchObject({
      ok: true,
      detail: expect.stringContaining('a sandbox ran a command'),
    })
  }, 180_000)

  it('does not trust a Podman that responds but cannot start a sandbox', async ({ skip }) => {
    const missing = podmanMissing()
    if (missing) skip(missing)
    expect(await lookAt(startPodman, { runtime: '/bin/false' })).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/podman.*a sandbox does not start/i),
      fix: expect.stringMatching(/\S/),
    })
  }, 180_000)

  it('tries every installed OCI runtime', async () => {
    const home = mkdtempSync(path.join(tmpdir(), 'skt-doctor-'))
    folder = home
    const { findings } = await doctor(home, `unix://${home}/none.sock`)
    for (const { what, ok, detail } of findings)
      if (ok && /^(runtime|isolator oci)/.test(what))
        expect([what, detail]).toEqual([what, expect.stringContaining('a sandbox ran a command')])
  }, 120_000)
})

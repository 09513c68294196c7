import { mkdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { createBench, reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-tmp-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root })

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', script] })
  return (stdout + stderr).trim()
}

/** The file in /tmp after a stop, in a copy from a snapshot, and in a fork. */
async function kept(sandbox: Sandbox): Promise<string[]> {
  await sandbox.files.writeFile('/tmp/kept/file', 'here')
  await sandbox.stop()
  await sandbox.start()
  const { snapshotId } = await sandbox.snapshot()
  const copy = await provider.create({ snapshotId })
  const [fork] = await sandbox.fork()
  if (fork instanceof Error) throw fork
  const found: string[] = []
  for (const one of [sandbox, copy, fork!]) {
    found.push(await sh(one, 'cat /tmp/kept/file'))
    await one.destroy()
  }
  await provider.deleteSnapshot(snapshotId)
  return found
}

describe('/tmp', () => {
  beforeEach((ctx) => ctx.skip(skipped !== undefined, skipped))
  afterAll(() => provider.close())

  it('is kept by stop, snapshot and fork', async () => {
    expect(await kept(await provider.create())).toEqual(['here', 'here', 'here'])
  })

  it('is kept on a disk with a limit, and counts against it', async () => {
    const sandbox = await provider.create({ resources: { diskMb: 16 } })
    expect(await sh(sandbox, 'head -c 40000000 /dev/zero > /tmp/big')).toContain('No space left')
    await sh(sandbox, 'rm /tmp/big')
    expect(await kept(sandbox)).toEqual(['here', 'here', 'here'])
  })

  it('is empty after a start with `tmp: memory`', async () => {
    const sandbox = await provider.create({ providerOptions: { tmp: 'memory', tmpMb: 2 } })
    expect(await sh(sandbox, 'head -c 4000000 /dev/zero > /tmp/big')).toContain('No space left')
    await sh(sandbox, 'rm /tmp/big')
    const missing = expect.stringContaining('No such file')
    expect(await kept(sandbox)).toEqual([missing, missing, missing])
  })

  it('lets every user make files that other users cannot remove, on an image without /tmp, too', async () => {
    await using bench = await createBench()
    const rootfs = path.join(bench.folder, 'rootfs')
    for (const folder of ['usr', 'dev', 'proc', 'sys', 'run', 'etc', 'bin', 'lib', 'lib64'])
      mkdirSync(path.join(rootfs, folder), { recursive: true })
    const programs = ['/usr', '/bin', '/lib', '/lib64'].map((folder) => ({ source: folder, target: folder }))
    for (const changes of [{}, { image: { rootfs }, mounts: programs }]) {
      const box = await bench.start(changes)
      expect((await box.sh('stat -c "%a %u" /tmp')).out).toBe('1777 0')
      await box.sh('touch /tmp/of-root', { user: '0' })
      expect((await box.sh('touch /tmp/own && rm /tmp/own; rm -f /tmp/of-root')).err).toContain(
        'not permitted',
      )
      // One mount, the root's.
      const mounts = await box.sh(
        `perl -ane 'print "$F[4] $F[5]\n" if $F[4] =~ m{^/(tmp)?$}' /proc/self/mountinfo`,
      )
      expect(mounts.out).toMatch(/^\/ rw,nosuid,nodev[^\n]*$/)
    }
  })
})

import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'
import { shimsOf } from '../test-helper.ts'
import { showDisk } from '../testing/crash-picture.ts'

/**
 * Simulates a power cut: an ext4 file system in a file drops all unwritten data. After it is mounted again, every
 * acknowledged snapshot exists, and nothing is partial.
 */
const skipped =
  (await reasonToSkip()) ?? (process.getuid?.() === 0 ? undefined : 'needs root to mount a disk')
const place = mkdtempSync(path.join(tmpdir(), 'sk-power-'))
const disk = path.join(place, 'disk')
const cgroupParent = `sandkasten-power-${process.pid}`

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

describe('a power cut', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  afterAll(() => {
    for (const group of globSync(`/sys/fs/cgroup/{,*/}${cgroupParent}`))
      execFileSync('find', [group, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';'])
    rmSync(place, { recursive: true, force: true })
  })

  it('loses no acknowledged snapshot, whichever layers are below it', {
    timeout: 180_000,
  }, async () => {
    mkdirSync(disk)
    execFileSync('truncate', ['-s', '256M', `${disk}.1`])
    execFileSync('mkfs.ext4', ['-q', `${disk}.1`])
    mount(`${disk}.1`)
    const pictures = new Map<string, string>()
    let life = open()
    const keep = async (sandbox: Sandbox, one: { snapshotId: string }) => {
      const shown = await life.provider.create({ snapshotId: one.snapshotId })
      pictures.set(one.snapshotId, await showDisk(shown))
      await shown.destroy()
      return sandbox
    }
    try {
      const first = await life.provider.create({ name: 'first' })
      // Creates and removes folders, so that they are spread over the disk.
      const attributes = () =>
        execFileSync('lsattr', ['-d', path.join(disk, 'sandboxes')], { encoding: 'utf8' })
      await expect.poll(attributes).toMatch(/^\S*T/)
      await sh(
        first,
        'mkdir -p a/b; head -c 5M /dev/urandom > a/large; echo one > a/b/small; ln -s small a/b/link; mkfifo pipe',
      )
      await keep(first, await first.snapshot())
      await sh(first, 'echo two > a/b/small; rm a/large')
      await first.stop()
      await keep(first, await first.snapshot())
      await first.start()
      // More files than the engine syncs one by one.
      await sh(first, 'mkdir many; for i in $(seq 400); do echo $i > many/$i; done')
      await keep(first, await first.snapshot())
      // The layer below is not yet synced to the disk.
      await sh(first, 'echo three > a/b/small')
      const [fork] = (await first.fork()) as [Sandbox]
      await sh(fork, 'echo four > a/b/other')
      await fork.stop()
      await keep(fork, await fork.snapshot())
    } finally {
      const shims = await life.shims()
      cutPower()
      for (const pid of shims) process.kill(pid, 'SIGKILL')
      await life.end()
    }
    // Mount a copy, because other sandboxes may have the old file mounted in their own mount namespace.
    execFileSync('cp', [`${disk}.1`, `${disk}.2`])
    execFileSync('umount', ['--lazy', disk])
    mount(`${disk}.2`)
    life = open()
    try {
      const listed = (await life.provider.listSnapshots()).map(({ snapshotId }) => snapshotId)
      expect([...listed].sort()).toEqual([...pictures.keys()].sort())
      for (const [snapshotId, picture] of pictures) {
        const copy = await life.provider.create({ snapshotId })
        expect(await showDisk(copy)).toBe(picture)
        await copy.destroy()
      }
      for (const { sandboxId } of await life.provider.list()) await life.provider.destroy(sandboxId)
      for (const id of listed) await life.provider.deleteSnapshot(id)
      await life.provider.sweep()
    } finally {
      await life.end()
      execFileSync('umount', ['--lazy', disk])
    }
  })
})

function mount(file: string): void {
  execFileSync('mount', ['-o', 'loop', file, disk])
}

/** FS_IOC_SHUTDOWN without flushing the journal. */
function cutPower(): void {
  const script = 'open(F, "<", $ARGV[0]) or die; my $how = pack("L", 2); ioctl(F, 0x8004587d, $how) or die $!'
  execFileSync('perl', ['-e', script, disk])
}

function open() {
  const run = mkdtempSync(path.join(tmpdir(), 'sk-run-'))
  const oci = { runFolder: run, cgroupParent, ids: { folder: path.join(disk, 'ids') } }
  const provider = new EngineProvider({ isolator: 'oci', root: disk, oci })
  return {
    provider,
    shims: async () => (await provider.list()).flatMap(({ sandboxId }) => shimsOf(sandboxId)),
    async end() {
      await provider.close()
      rmSync(run, { recursive: true, force: true })
    },
  }
}

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-euc', script] })
  if (exitCode !== 0) throw new Error(`${script}: ${stderr}`)
  return stdout
}

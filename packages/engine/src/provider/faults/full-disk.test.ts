import { execFileSync } from 'node:child_process'
import { globSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'
import { runnersOf } from '../test-helper.ts'
import { SmallDisk } from '../testing/small-disk.ts'

/**
 * A data folder that is full or read-only. Each operation runs with room for no file, for one file, for two files and
 * so on until it succeeds, so it fails once at every step. Each time the error has a hint, the failed operation leaves
 * nothing behind, and existing data is unchanged.
 */
const skipped = (await reasonToSkip()) ?? SmallDisk.reasonToSkip()

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

describe('a full disk', () => {
  let disk: SmallDisk
  let run: string
  let provider: EngineProvider
  const cgroupParent = `sandkasten-full-${process.pid}`
  /** A running sandbox, a stopped sandbox, a sandbox on too many layers, a snapshot and a volume. */
  let running: Sandbox
  let stopped: Sandbox
  let deep: Sandbox
  let snapshotId: string

  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  beforeAll(async () => {
    if (skipped) return
    disk = new SmallDisk()
    run = mkdtempSync(path.join(tmpdir(), 'sk-run-'))
    const ids = { folder: path.join(disk.folder, 'ids') }
    provider = new EngineProvider({
      isolator: 'oci',
      root: disk.folder,
      oci: { runFolder: run, cgroupParent, ids },
    })
    running = await provider.create({ name: 'running' })
    await sh(running, 'echo kept > kept; mkdir more; touch more/1 more/2')
    snapshotId = (await running.snapshot({ name: 'before' })).snapshotId
    stopped = await provider.create({ name: 'stopped' })
    await sh(stopped, 'echo kept > kept')
    await stopped.stop()
    deep = await provider.create({ name: 'deep' })
    await sh(deep, 'echo kept > kept')
    await deep.stop()
    for (let turn = 0; turn < 21; turn += 1) {
      writeFileSync(path.join(disk.folder, 'sandboxes', deep.sandboxId, `disk/disk/upper/${turn}`), 'x')
      const [fork] = await deep.fork()
      await (fork as Sandbox).destroy()
    }
    await provider.volumes.create('volume')
  })

  afterAll(async () => {
    if (skipped) return
    disk.heal()
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
    await provider.close()
    rmSync(run, { recursive: true, force: true })
    for (const group of globSync(`/sys/fs/cgroup/{,*/}${cgroupParent}`)) execFileSync('rmdir', [group])
    disk[Symbol.dispose]()
  })

  /** All files except the content of disks and the exit reports of sandboxes. */
  const made = () =>
    execFileSync('find', ['.', '-name', 'tree', '-prune', '-o', '-name', 'upper', '-prune', '-o', '-print'], {
      cwd: disk.folder,
      encoding: 'utf8',
    })
      .split('\n')
      .filter((name) => !/end\.json$|^\.\/images\/./.test(name))
      .sort()
  const lives = () => readdirSync(run).sort()

  const things: Record<string, { ask(): Promise<unknown>; undo(made: never): Promise<unknown> }> = {
    'a sandbox': {
      ask: () => provider.create({ name: 'new' }),
      undo: (sandbox: Sandbox) => sandbox.destroy(),
    },
    'a sandbox with a limited disk': {
      ask: () => provider.create({ resources: { diskMb: 16 } }),
      undo: (sandbox: Sandbox) => sandbox.destroy(),
    },
    'a sandbox of a snapshot': {
      ask: () => provider.create({ snapshotId }),
      undo: (sandbox: Sandbox) => sandbox.destroy(),
    },
    'a sandbox that writes to a volume': {
      ask: () => provider.create({ providerOptions: { volumes: [{ name: 'volume', target: '/volume' }] } }),
      undo: (sandbox: Sandbox) => sandbox.destroy(),
    },
    'a snapshot of a running sandbox': {
      ask: () => running.snapshot(),
      undo: ({ snapshotId }: { snapshotId: string }) => provider.deleteSnapshot(snapshotId),
    },
    'a fork': { ask: () => fork(running), undo: (sandbox: Sandbox) => sandbox.destroy() },
    'a fork of a deep stack': { ask: () => fork(deep), undo: (sandbox: Sandbox) => sandbox.destroy() },
    'a volume': {
      ask: () => provider.volumes.create('other'),
      undo: () => provider.volumes.remove('other'),
    },
    'another start': { ask: () => stopped.start(), undo: () => stopped.stop() },
    'a pause': { ask: () => running.pause(), undo: () => running.resume() },
    // This seals the disk even if the snapshot fails, so it runs last.
    'a snapshot of a stopped sandbox': {
      ask: () => stopped.snapshot(),
      undo: ({ snapshotId }: { snapshotId: string }) => provider.deleteSnapshot(snapshotId),
    },
  }

  describe.each(['files', 'pages'] as const)('without room for more %s', (room) => {
    it.each(Object.keys(things))(
      '%s: fails without leftovers and with a hint, then succeeds',
      async (name) => {
        const { ask, undo } = things[name]!
        const before = { made: made(), lives: lives() }
        for (let left = 0; ; left += 1) {
          disk.leave(room === 'files' ? { files: left } : { pages: left })
          const answer = await ask().then(
            (value) => ({ value }),
            (error: unknown) => ({ error }),
          )
          const after = { made: made(), lives: lives() }
          disk.heal()
          if ('value' in answer) {
            await undo(answer.value as never)
            // Operations that only change a record need no additional room.
            const needsNone = room === 'pages' && ['a pause', 'another start'].includes(name)
            if (needsNone) expect(left, 'needs no room').toBe(0)
            else expect(left, 'fails at least once').toBeGreaterThan(0)
            break
          }
          expect(answer.error, `with room for ${left}`).toMatchObject({
            name: 'SandboxError',
            code: 'disk_full',
            message: expect.stringMatching(/ENOSPC\.$/),
            hint: expect.stringMatching(/Free space, or inodes \(df -i\)/),
          })
          expect(after, `with room for ${left}`).toEqual(before)
          expect(await sh(running, 'cat kept')).toBe('kept\n')
        }
        expect(await provider.sweep()).toEqual([])
      },
    )
  })

  it('a read-only disk is reported as read-only, and nothing changes', async () => {
    const before = { made: made(), lives: lives() }
    disk.readOnly()
    for (const [name, { ask }] of Object.entries(things)) {
      const error = await ask().catch((error: unknown) => error)
      expect(error, name).toMatchObject({
        code: 'permission_denied',
        message: expect.stringMatching(/EROFS\.$/),
        hint: expect.stringContaining('mounted read-only'),
      })
    }
    expect(await sh(running, 'cat kept')).toBe('kept\n')
    expect((await provider.list()).map(({ name }) => name).sort()).toEqual(['deep', 'running', 'stopped'])
    const { snapshotId: gone } = (await provider.listSnapshots())[0]!
    for (const ask of [() => stopped.destroy(), () => provider.deleteSnapshot(gone)])
      await expect(ask()).rejects.toMatchObject({ code: 'permission_denied' })
    expect({ made: made(), lives: lives() }).toEqual(before)
    disk.heal()
    await stopped.start()
    expect(await sh(stopped, 'cat kept')).toBe('kept\n')
    await stopped.stop()
  })

  it.each([{ files: 0 }, { pages: 0 }])(
    'with room for %o more, sandboxes can still be stopped and destroyed',
    async (room) => {
      const [one, two] = [await provider.create({ name: 'one' }), await provider.create()]
      await sh(one, 'echo kept > kept')
      const copied = await one.snapshot()
      disk.leave(room)
      // The stop succeeds although the record cannot be written, and it is not reported as a crash.
      await one.stop()
      expect(runnersOf(one.sandboxId)).toEqual([])
      expect(await one.status()).toBe('stopped')
      if ('files' in room) await expect(one.start()).rejects.toMatchObject({ code: 'disk_full' })
      // A sandbox that dies by itself is reported as stopped and hides no other sandbox.
      for (const pid of runnersOf(two.sandboxId)) process.kill(pid, 'SIGKILL')
      await expect.poll(() => two.status()).toBe('stopped')
      expect(await provider.list()).toHaveLength(5)
      expect(await provider.deleteSnapshot(copied.snapshotId)).toBe(true)
      expect(await two.destroy()).toBe(true)
      expect(await provider.list()).toHaveLength(4)
      disk.heal()
      expect((await one.info()).rawStatus).toBeUndefined()
      await one.start()
      expect(await sh(one, 'cat kept')).toBe('kept\n')
      await one.destroy()
      await provider.sweep()
      expect(readdirSync(path.join(disk.folder, 'names'))).toHaveLength(3)
    },
  )

  async function fork(sandbox: Sandbox): Promise<Sandbox> {
    const [copy] = await sandbox.fork()
    if (copy instanceof Error) throw copy
    return copy as Sandbox
  }
})

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-euc', script] })
  if (exitCode !== 0) throw new SandboxError('internal', `${script}: ${stderr}`)
  return stdout
}

import { equal, ok, rejects } from '../../assert.ts'
import type { Trial } from '../../trial.ts'
import type { AnySandbox } from '../../types.ts'
import { group } from '../../types.ts'

/** Paths that a sandbox says are writable, with a file below each. */
function filesIn({ writablePaths = [] }: AnySandbox): string[] {
  ok(
    writablePaths.length > 0,
    'writablePaths is empty. If the provider cannot know it, say so: { without: … }',
  )
  return writablePaths.map((path) => `${path === '/' ? '' : path}/kit-writable/file`)
}

const isBelow = (path: string) => (folder: string) => folder === '/' || path.startsWith(`${folder}/`)

async function writeAll(sandbox: AnySandbox): Promise<void> {
  for (const file of filesIn(sandbox)) await sandbox.files.writeFile(file, 'kept')
}

/** A copy may have other paths: those of a sandbox that is a folder of this machine. */
async function expectKept(sandbox: AnySandbox, where: string): Promise<void> {
  for (const file of filesIn(sandbox))
    equal(await sandbox.files.readFile(file, 'utf8').catch(String), 'kept', `${file} ${where}`)
}

const asRoot = (t: Trial) => t.create({ user: 'root' })

export const users = group('users and writable folders', [
  {
    id: 'writable-paths',
    fact: 'writablePaths',
    name: 'Files can be written below every path of writablePaths, and the workdir is below one of them',
    async run(t) {
      const sandbox = await t.create()
      const { writablePaths = [], workdir } = sandbox
      for (const path of writablePaths) ok(path.startsWith('/'), `${path} is not absolute`)
      ok(
        writablePaths.some(isBelow(`${workdir}/`)),
        `The workdir ${workdir} is in none of ${writablePaths.join(', ')}`,
      )
      await writeAll(sandbox)
      await expectKept(sandbox, 'after the write')
      equal(
        (await t.provider.get(sandbox.id)).writablePaths,
        writablePaths,
        'writablePaths of a second handle',
      )
    },
  },
  {
    id: 'writable-kept-stop',
    fact: 'writablePaths',
    name: 'What is written below writablePaths is there after stop and start',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await writeAll(sandbox)
      await sandbox.stop()
      await sandbox.start()
      await expectKept(sandbox, 'after stop and start')
    },
  },
  {
    id: 'writable-kept-snapshot',
    fact: 'writablePaths',
    name: 'What is written below writablePaths is in a snapshot',
    needs: ['snapshot'],
    async run(t) {
      const sandbox = await t.create()
      await writeAll(sandbox)
      const { snapshotId } = await sandbox.snapshot()
      try {
        await expectKept(await t.create({ snapshotId }), 'in a sandbox of the snapshot')
      } finally {
        await t.provider.deleteSnapshot(snapshotId)
      }
    },
  },
  {
    id: 'writable-kept-fork',
    fact: 'writablePaths',
    name: 'What is written below writablePaths is in a fork',
    needs: ['fork'],
    async run(t) {
      const sandbox = await t.create()
      await writeAll(sandbox)
      const [fork] = await sandbox.fork()
      if (!fork || fork instanceof Error) throw fork ?? new Error('fork() returned nothing')
      try {
        await expectKept(fork, 'in the fork')
      } finally {
        await fork.destroy()
      }
    },
  },
  {
    id: 'permission-hint',
    fact: 'writablePaths',
    name: 'The hint of permission_denied fits the path: it names writable folders, or says that the mode is wrong',
    async run(t) {
      const sandbox = await t.create()
      const { writablePaths = [], workdir } = sandbox
      // Modes do not apply to root.
      if ((await t.run(sandbox, t.commands.userId())).stdout.trim() === '0') return
      const closed = `${workdir}/${await t.folder(sandbox)}`
      await sandbox.files.chmod(closed, 0o500)
      for (const [path, codes] of [
        [`${closed}/file`, 'permission_denied'],
        // A provider whose files are all below the workdir does not ask the system.
        ['/usr/kit-denied', ['permission_denied', 'path_outside']],
      ] as const) {
        const isWritable = writablePaths.some(isBelow(path))
        if (isWritable && !path.startsWith(`${workdir}/`)) continue
        const { code, hint } = await rejects(sandbox.files.writeFile(path, 'x'), codes, `writing ${path}`)
        if (code === 'path_outside') continue
        const named = writablePaths.filter((folder) => hint.includes(folder))
        equal(named.length > 0, !isWritable, `whether the hint for ${path} names a folder (${hint})`)
        equal(/\bmode\b/.test(hint), isWritable, `whether the hint for ${path} names the mode (${hint})`)
      }
      await sandbox.files.chmod(closed, 0o700)
    },
  },
  {
    id: 'user-root',
    name: 'With `user: root`, commands are root and may write everywhere on the disk',
    options: ['user'],
    async run(t) {
      const sandbox = await asRoot(t)
      equal((await t.run(sandbox, t.commands.userId())).stdout.trim(), '0', 'user id of a command')
      equal(sandbox.writablePaths, ['/'], 'writablePaths')
      for (const path of ['/etc/kit-file', '/usr/kit-file', '/kit-file'])
        await sandbox.files.writeFile(path, 'root')
      equal(await sandbox.files.readFile('/usr/kit-file', 'utf8'), 'root', 'a file below /usr')
    },
  },
])

import { equal, ok } from '../../assert.ts'
import type { Trial } from '../../trial.ts'
import type { AnySandbox } from '../../types.ts'
import { group } from '../../types.ts'

/** Paths that a sandbox says are writable, with a file below each. */
function filesIn({ writablePaths = [] }: AnySandbox): string[] {
  return writablePaths.map((path) => `${path === '/' ? '' : path}/kit-writable/file`)
}

async function writeAll(sandbox: AnySandbox): Promise<string[]> {
  const files = filesIn(sandbox)
  for (const file of files) await sandbox.files.writeFile(file, 'kept')
  return files
}

async function expectKept(sandbox: AnySandbox, files: readonly string[], where: string): Promise<void> {
  for (const file of files)
    equal(await sandbox.files.readFile(file, 'utf8').catch(String), 'kept', `${file} ${where}`)
}

const asRoot = (t: Trial) => t.create({ user: 'root' })

export const users = group('users and writable folders', [
  {
    id: 'writable-paths',
    name: 'Files can be written below every path of writablePaths, and the workdir is below one of them',
    async run(t) {
      const sandbox = await t.create()
      const { writablePaths, workdir } = sandbox
      if (writablePaths === undefined) return
      for (const path of writablePaths) ok(path.startsWith('/'), `${path} is not absolute`)
      const covers = (path: string) => path === '/' || workdir === path || workdir.startsWith(`${path}/`)
      ok(writablePaths.some(covers), `The workdir ${workdir} is in none of ${writablePaths.join(', ')}`)
      await expectKept(sandbox, await writeAll(sandbox), 'after the write')
      equal(
        (await t.provider.get(sandbox.id)).writablePaths,
        writablePaths,
        'writablePaths of a second handle',
      )
    },
  },
  {
    id: 'writable-kept-stop',
    name: 'What is written below writablePaths is there after stop and start',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      const files = await writeAll(sandbox)
      await sandbox.stop()
      await sandbox.start()
      await expectKept(sandbox, files, 'after stop and start')
    },
  },
  {
    id: 'writable-kept-snapshot',
    name: 'What is written below writablePaths is in a snapshot',
    needs: ['snapshot'],
    async run(t) {
      const sandbox = await t.create()
      const files = await writeAll(sandbox)
      const { snapshotId } = await sandbox.snapshot()
      try {
        await expectKept(await t.create({ snapshotId }), files, 'in a sandbox of the snapshot')
      } finally {
        await t.provider.deleteSnapshot(snapshotId)
      }
    },
  },
  {
    id: 'writable-kept-fork',
    name: 'What is written below writablePaths is in a fork',
    needs: ['fork'],
    async run(t) {
      const sandbox = await t.create()
      const files = await writeAll(sandbox)
      const [fork] = await sandbox.fork()
      if (!fork || fork instanceof Error) throw fork ?? new Error('fork() returned nothing')
      try {
        await expectKept(fork, files, 'in the fork')
      } finally {
        await fork.destroy()
      }
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

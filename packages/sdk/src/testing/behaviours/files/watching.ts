import type { FileChange } from '../../../spec/index.ts'
import { equal, ok, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

export const watching = group('watching files', [
  {
    id: 'watch-changes',
    name: 'A watcher reports a new, a changed and a removed file, in that order',
    needs: ['watch'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const changes = follow(await sandbox.files.watch(folder))
      t.later(() => changes.end())
      await sandbox.files.writeFile(`${folder}/file`, 'one')
      await changes.until((change) => change.path === 'file' && change.type !== 'removed')
      await sandbox.files.appendFile(`${folder}/file`, 'two')
      await changes.until((change) => change.path === 'file' && change.type !== 'removed')
      await sandbox.files.rm(`${folder}/file`)
      await changes.until((change) => change.path === 'file' && change.type === 'removed')
    },
  },
  {
    id: 'watch-order',
    name: 'Changes to several files are reported in order',
    needs: ['watch'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const changes = follow(await sandbox.files.watch(folder))
      t.later(() => changes.end())
      for (const name of ['c', 'a', 'b']) await sandbox.files.writeFile(`${folder}/${name}`, name)
      await changes.until(({ path }) => path === 'b')
      equal(
        [...new Set(changes.seen.map(({ path }) => path).filter((path) => path.length === 1))],
        ['c', 'a', 'b'],
        'paths',
      )
    },
  },
  {
    id: 'watch-program',
    name: 'A watcher also reports changes made by programs',
    needs: ['watch'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const changes = follow(await sandbox.files.watch(folder))
      t.later(() => changes.end())
      await t.run(sandbox, t.commands.flood(1, 'made'), { cwd: folder })
      await changes.until(({ path }) => path === 'made')
    },
  },
  {
    id: 'watch-recursive',
    name: 'With recursive: true, changes in subfolders are reported with their path; without it they are not',
    needs: ['watch'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.mkdir(`${folder}/deep`)
      const all = follow(await sandbox.files.watch(folder, { recursive: true }))
      const flat = follow(await sandbox.files.watch(folder))
      t.later(() => Promise.all([all.end(), flat.end()]))
      await sandbox.files.writeFile(`${folder}/deep/file`, '')
      await sandbox.files.writeFile(`${folder}/last`, '')
      await all.until(({ path }) => path === 'deep/file')
      await flat.until(({ path }) => path === 'last')
      equal(
        flat.seen.filter(({ path }) => path.includes('/')),
        [],
        'what the one without recursive was told from below',
      )
    },
  },
  {
    id: 'watch-end',
    name: 'A watch ends when its signal fires',
    needs: ['watch'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const controller = new AbortController()
      const changes = follow(await sandbox.files.watch(folder, { signal: controller.signal }))
      await sandbox.files.writeFile(`${folder}/file`, '')
      await changes.until(({ path }) => path === 'file')
      controller.abort()
      await changes.ended()
    },
  },
  {
    id: 'watch-missing',
    name: 'Watching a missing path throws file_not_found',
    needs: ['watch'],
    async run(t) {
      await rejects((await t.sandbox()).files.watch('no/such/folder'), 'file_not_found', 'watch')
    },
  },
])

function follow(changes: AsyncIterable<FileChange>) {
  const iterator = changes[Symbol.asyncIterator]()
  const seen: FileChange[] = []
  return {
    seen,
    async until(wanted: (change: FileChange) => boolean): Promise<void> {
      for (;;) {
        const { done, value } = await iterator.next()
        ok(!done, `The watch ended too early, after ${JSON.stringify(seen)}`)
        seen.push(value)
        if (wanted(value)) return
      }
    },
    /** Resolves at the end; `aborted` counts as an end. */
    async ended(): Promise<void> {
      try {
        while (!(await iterator.next()).done);
      } catch (error) {
        equal((error as { code?: string }).code, 'aborted', 'how the watch ended')
      }
    },
    end: () => iterator.return?.(),
  }
}

import { equal, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

export const links = group('links', [
  {
    id: 'rm-link',
    name: 'Removing a link, also recursively, keeps its target',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/dir/inner`, 'kept')
      await sandbox.files.symlink('dir', `${folder}/link`)
      await sandbox.files.rm(`${folder}/link`, { recursive: true })
      equal(await sandbox.files.readFile(`${folder}/dir/inner`, 'utf8'), 'kept', 'content')
    },
  },
  {
    id: 'symlink',
    name: 'Reading, writing and stat follow a link; lstat and readlink do not',
    async run(t) {
      const sandbox = await t.sandbox()
      const { files } = sandbox
      const folder = await t.folder(sandbox)
      await files.writeFile(`${folder}/target`, 'hello')
      await files.symlink('target', `${folder}/link`)
      equal(await files.readFile(`${folder}/link`, 'utf8'), 'hello', 'content through the link')
      equal(
        [(await files.stat(`${folder}/link`)).type, (await files.lstat(`${folder}/link`)).type],
        ['file', 'symlink'],
        'types by stat and lstat',
      )
      equal(await files.readlink(`${folder}/link`), 'target', 'readlink')
      await files.writeFile(`${folder}/link`, 'changed')
      equal(
        [await files.readFile(`${folder}/target`, 'utf8'), (await files.lstat(`${folder}/link`)).type],
        ['changed', 'symlink'],
        'the target’s content and the link’s type after writing through it',
      )
    },
  },
  {
    id: 'symlink-listed',
    name: 'Links are listed as links and not followed, also recursively',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/dir/inner`, '')
      await sandbox.files.symlink('dir', `${folder}/link`)
      await sandbox.files.symlink('.', `${folder}/loop`)
      const entries = await sandbox.files.list(folder, { recursive: true })
      equal(
        entries.map(({ path, type }) => `${path} ${type}`),
        ['dir directory', 'dir/inner file', 'link symlink', 'loop symlink'],
        'entries',
      )
    },
  },
  {
    id: 'symlink-dangling',
    name: 'A dangling link is listed; reading it throws file_not_found, and exists() is false',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.symlink('nowhere', `${folder}/link`)
      await rejects(sandbox.files.readFile(`${folder}/link`), 'file_not_found', 'readFile')
      equal(
        [await sandbox.files.exists(`${folder}/link`), await sandbox.files.readdir(folder)],
        [false, ['link']],
        'exists() and readdir()',
      )
    },
  },
  {
    id: 'symlink-loop',
    name: 'A loop of links throws an error and does not hang',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.symlink('b', `${folder}/a`)
      await sandbox.files.symlink('a', `${folder}/b`)
      await rejects(
        sandbox.files.readFile(`${folder}/a`),
        ['file_not_found', 'invalid_argument', 'path_outside'],
        'readFile',
      )
      await sandbox.files.rm(`${folder}/a`)
    },
  },
  {
    id: 'symlink-exists',
    name: 'symlink does not replace an existing file, and readlink of a file throws',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/file`, '')
      await rejects(sandbox.files.symlink('x', `${folder}/file`), 'file_exists', 'symlink')
      await rejects(sandbox.files.readlink(`${folder}/file`), 'invalid_argument', 'readlink')
    },
  },
])

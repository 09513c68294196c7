import { equal, ok, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

const unusualNames = [
  'with space',
  ' leading',
  'trailing ',
  "it's",
  '"quoted"',
  'new\nline',
  'tab\t',
  '🏖️ sand',
  'ünïcödé',
  '-rf',
  '--help',
  'back\\slash',
  '$HOME',
  '$(id)',
  '`id`',
  '*',
  '?',
  '[a]',
  '{a,b}',
  '~',
  '#x',
  ';',
  '&',
  '|',
  '%20',
  '...',
  '.hidden',
  '..name',
  'a:b',
  `${'n'.repeat(255)}`,
]

export const tree = group('folders and names', [
  {
    id: 'unusual-names',
    name: 'Names with spaces, quotes, newlines, emoji, dashes, backslashes and of 255 bytes work everywhere',
    async run(t) {
      const sandbox = await t.sandbox()
      const { files } = sandbox
      const folder = await t.folder(sandbox)
      for (const name of unusualNames) {
        await files.writeFile(`${folder}/${name}`, `content of ${name}`)
        equal(
          await files.readFile(`${folder}/${name}`, 'utf8'),
          `content of ${name}`,
          `content of ${JSON.stringify(name)}`,
        )
        equal((await files.stat(`${folder}/${name}`)).type, 'file', `type of ${JSON.stringify(name)}`)
      }
      equal(await files.readdir(folder), [...unusualNames].sort(), 'names in the folder')
      for (const name of unusualNames) await files.rm(`${folder}/${name}`)
      equal(await files.readdir(folder), [], 'names after all are removed')
    },
  },
  {
    id: 'unusual-names-commands',
    name: 'A program finds a file with an unusual name given as an argument',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      for (const name of ['with space', "it's", 'new\nline', '🏖️', '$(id)', 'back\\slash']) {
        await sandbox.files.writeFile(`${folder}/${name}`, '')
        equal(
          (await t.run(sandbox, t.commands.gate(name), { cwd: folder })).stdout,
          'before\nafter\n',
          `the program that waits for ${JSON.stringify(name)}`,
        )
      }
    },
  },
  {
    id: 'name-too-long',
    name: 'A name of more than 255 bytes throws a SandboxError other than internal',
    async run(t) {
      const { files } = await t.sandbox()
      await rejects(files.writeFile('ü'.repeat(130), 'x'), ['invalid_argument', 'too_large'], 'writeFile')
    },
  },
  {
    id: 'list-entries',
    name: 'list() returns name, path, type and size of the entries of a folder, sorted',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/b.txt`, 'four')
      await sandbox.files.mkdir(`${folder}/a`)
      await sandbox.files.writeFile(`${folder}/a/deep.txt`, 'x')
      const entries = await sandbox.files.list(folder)
      equal(
        entries.map(({ name, path, type }) => [name, path, type]),
        [
          ['a', 'a', 'directory'],
          ['b.txt', 'b.txt', 'file'],
        ],
        'entries',
      )
      equal(entries[1]?.size, 4, 'size')
    },
  },
  {
    id: 'list-recursive',
    name: 'list({ recursive: true }) includes subfolders, with paths relative to the listed folder',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      for (const path of ['z', 'a/1', 'a/b/2', 'a b/3'])
        await sandbox.files.writeFile(`${folder}/${path}`, '')
      const entries = await sandbox.files.list(folder, { recursive: true })
      equal(
        entries.map(({ path }) => path),
        ['a', 'a b', 'a b/3', 'a/1', 'a/b', 'a/b/2', 'z'],
        'paths',
      )
      equal(entries.find(({ path }) => path === 'a/b/2')?.name, '2', 'name')
    },
  },
  {
    id: 'list-default',
    name: 'list() without a path lists the workdir',
    async run(t) {
      const { files } = await t.create()
      await files.writeFile('here', '')
      ok(
        (await files.list()).some(({ name }) => name === 'here'),
        'The file is not listed',
      )
    },
  },
  {
    id: 'list-missing',
    name: 'Listing a missing folder throws file_not_found',
    async run(t) {
      const { files } = await t.sandbox()
      await rejects(files.list('no/such/folder'), 'file_not_found', 'list')
      await rejects(files.readdir('no/such/folder'), 'file_not_found', 'readdir')
    },
  },
  {
    id: 'stat',
    name: 'stat() returns type and size of files and folders; a missing path throws file_not_found',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/file`, 'hello')
      const file = await sandbox.files.stat(`${folder}/file`)
      equal([file.type, file.size], ['file', 5], 'type and size')
      equal((await sandbox.files.stat(folder)).type, 'directory', 'type of the folder')
      if (file.mtimeMs !== undefined)
        ok(Number.isFinite(file.mtimeMs) && file.mtimeMs > 0, `mtimeMs is ${file.mtimeMs}`)
      await rejects(sandbox.files.stat(`${folder}/none`), 'file_not_found', 'stat')
      await rejects(sandbox.files.lstat(`${folder}/none`), 'file_not_found', 'lstat')
    },
  },
  {
    id: 'exists',
    name: 'exists() is true for files and folders, and false for a missing path',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/file`, '')
      equal(
        await Promise.all(
          [`${folder}/file`, folder, `${folder}/none`, 'none/at/all'].map((path) =>
            sandbox.files.exists(path),
          ),
        ),
        [true, true, false, false],
        'answers',
      )
    },
  },
  {
    id: 'mkdir',
    name: 'mkdir creates one folder; an existing one throws file_exists, a missing parent file_not_found',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.mkdir(`${folder}/a`)
      await rejects(sandbox.files.mkdir(`${folder}/a`), 'file_exists', 'mkdir again')
      await rejects(sandbox.files.mkdir(`${folder}/x/y`), 'file_not_found', 'mkdir without its parent')
    },
  },
  {
    id: 'mkdir-recursive',
    name: 'mkdir({ recursive: true }) creates missing folders and accepts existing ones',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.mkdir(`${folder}/a/b/c`, { recursive: true })
      await sandbox.files.mkdir(`${folder}/a/b/c`, { recursive: true })
      equal((await sandbox.files.stat(`${folder}/a/b/c`)).type, 'directory', 'type')
      await sandbox.files.writeFile(`${folder}/file`, '')
      await rejects(
        sandbox.files.mkdir(`${folder}/file`, { recursive: true }),
        ['file_exists', 'not_a_directory'],
        'mkdir over a file',
      )
    },
  },
  {
    id: 'rename',
    name: 'rename moves files and folders, and replaces an existing file',
    async run(t) {
      const sandbox = await t.sandbox()
      const { files } = sandbox
      const folder = await t.folder(sandbox)
      await files.writeFile(`${folder}/a`, 'a')
      await files.writeFile(`${folder}/b`, 'b')
      await files.rename(`${folder}/a`, `${folder}/b`)
      equal(
        [await files.readFile(`${folder}/b`, 'utf8'), await files.exists(`${folder}/a`)],
        ['a', false],
        'the content, and whether the old name is there',
      )
      await files.writeFile(`${folder}/dir/inner`, 'in')
      await files.rename(`${folder}/dir`, `${folder}/moved`)
      equal(await files.readFile(`${folder}/moved/inner`, 'utf8'), 'in', 'content in the moved folder')
    },
  },
  {
    id: 'rename-missing',
    name: 'rename of a missing path throws file_not_found, and changes nothing',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/b`, 'b')
      await rejects(sandbox.files.rename(`${folder}/none`, `${folder}/b`), 'file_not_found', 'rename')
      equal(await sandbox.files.readFile(`${folder}/b`, 'utf8'), 'b', 'content of the target')
    },
  },
  {
    id: 'rename-over-folder',
    name: 'rename does not replace a folder that is not empty',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/full/inner`, 'kept')
      await sandbox.files.mkdir(`${folder}/other`)
      await rejects(
        sandbox.files.rename(`${folder}/other`, `${folder}/full`),
        ['directory_not_empty', 'file_exists'],
        'rename',
      )
      equal(await sandbox.files.readFile(`${folder}/full/inner`, 'utf8'), 'kept', 'content')
    },
  },
  {
    id: 'rm',
    name: 'rm removes a file; a missing path throws file_not_found unless forced',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, '')
      await files.rm(path)
      equal(await files.exists(path), false, 'exists()')
      await rejects(files.rm(path), 'file_not_found', 'rm again')
      await files.rm(path, { force: true })
    },
  },
  {
    id: 'rm-folder',
    name: 'rm of a folder needs recursive: true; without it nothing is removed',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/dir/inner`, 'x')
      await rejects(sandbox.files.rm(`${folder}/dir`), ['is_a_directory', 'directory_not_empty'], 'rm')
      equal(await sandbox.files.exists(`${folder}/dir/inner`), true, 'whether the content is there')
      await sandbox.files.rm(`${folder}/dir`, { recursive: true })
      equal(await sandbox.files.exists(`${folder}/dir`), false, 'whether the folder is there')
    },
  },
  {
    id: 'modes',
    name: 'A mode given at writing is kept by a later write without one',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, 'one', { mode: 0o750 })
      const { mode } = await files.stat(path)
      if (mode !== undefined) equal(mode.toString(8), '750', 'mode')
      await files.writeFile(path, 'two')
      equal(await files.readFile(path, 'utf8'), 'two', 'content')
      if (mode !== undefined)
        equal((await files.stat(path)).mode?.toString(8), '750', 'mode after the second write')
    },
  },
  {
    id: 'default-mode',
    name: 'A new file has the mode 644 and is not executable',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, 'x')
      equal((await files.stat(path)).size, 1, 'size')
      equal(((await files.stat(path)).mode ?? 0o644).toString(8), '644', 'mode')
    },
  },
  {
    id: 'chmod',
    name: 'chmod changes the mode; a missing path throws file_not_found',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, '')
      await files.chmod(path, 0o700)
      equal(((await files.stat(path)).mode ?? 0o700).toString(8), '700', 'mode')
      await rejects(files.chmod(`${path}-none`, 0o700), 'file_not_found', 'chmod')
    },
  },
  {
    id: 'permission-denied',
    name: 'An unreadable file throws permission_denied, except for root',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('file')
      await sandbox.files.writeFile(path, 'secret', { mode: 0o000 })
      const { stdout: user } = await t.run(sandbox, t.commands.userId())
      if (user === '0') equal(await sandbox.files.readFile(path, 'utf8'), 'secret', 'content')
      else await rejects(sandbox.files.readFile(path), 'permission_denied', 'readFile')
      await sandbox.files.chmod(path, 0o600)
      equal(await sandbox.files.readFile(path, 'utf8'), 'secret', 'content after chmod')
    },
  },
])

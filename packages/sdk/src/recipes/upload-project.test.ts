import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { uploadProject } from './index.ts'
import {
  fingerprint,
  git,
  leftovers,
  localSandbox,
  removeTempFolders,
  repository,
  tempFolder,
  write,
} from './test-kit.ts'
import type { ProgressEvent } from './types.ts'

afterAll(removeTempFolders)

describe('uploadProject', () => {
  it('uploads into the sandbox’s working directory by default (28)', async () => {
    const { sandbox, dir } = await localSandbox()
    const result = await uploadProject(sandbox, { projectDir: repository() })
    expect(result).toMatchObject({
      remotePath: sandbox.workdir,
      sent: 1,
      unchanged: 0,
      removed: 0,
      skipped: [],
      conflicts: [],
    })
    expect(readFileSync(join(dir, 'a.txt'), 'utf8')).toBe('one\n')
  })

  it('21: sends uncommitted edits and untracked files, not ignored or deleted ones', async () => {
    const project = repository({
      'edited.txt': 'old',
      'deleted.txt': 'x',
      '.gitignore': 'secret*\n',
      'kept.txt': 'k',
    })
    write(project, { 'edited.txt': 'new', 'deleted.txt': null, 'untracked/deep.txt': 'u', secret: 's' })
    const { sandbox, dir } = await localSandbox()
    const { sent } = await uploadProject(sandbox, { projectDir: project })
    expect(sent).toBe(4)
    expect(git(dir, 'status', '--porcelain').split('\n').sort()).toEqual([
      ' D deleted.txt',
      ' M edited.txt',
      '?? untracked/',
    ])
    expect(existsSync(join(dir, 'secret'))).toBe(false)
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$|^secret/ }),
    )
  })

  it('21: sends ignored files that `include` names', async () => {
    const project = repository({ '.gitignore': '.env\ndist/\n' })
    write(project, { '.env': 'KEY=1', 'dist/app.js': 'app', 'dist/sub/x': 'x' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project, include: ['.env', './dist/sub/'] })
    expect(existsSync(join(dir, '.env'))).toBe(true)
    expect(existsSync(join(dir, 'dist/sub/x'))).toBe(true)
    expect(existsSync(join(dir, 'dist/app.js'))).toBe(false)
    await expect(uploadProject(sandbox, { projectDir: project, include: ['../x'] })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(uploadProject(sandbox, { projectDir: project, include: ['absent'] })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it('22: sends the complete history, branches and tags by default', async () => {
    const project = repository()
    for (const n of [2, 3, 4, 5]) git(project, 'commit', '-q', '--allow-empty', '-m', `commit ${n}`)
    git(project, 'branch', 'other', 'HEAD~2')
    git(project, 'tag', '-a', '-m', 'a tag', 'v1', 'HEAD~1')
    const full = await localSandbox()
    const { head } = await uploadProject(full.sandbox, { projectDir: project })
    expect(head).toBe(git(project, 'rev-parse', 'HEAD'))
    expect(git(full.dir, 'for-each-ref')).toBe(git(project, 'for-each-ref'))
    expect(git(full.dir, 'rev-parse', '--abbrev-ref', 'HEAD', '--is-shallow-repository')).toBe('main\nfalse')
    expect(git(full.dir, 'merge-base', 'main', 'other')).toBe(git(project, 'rev-parse', 'other'))
    expect(git(full.dir, 'fsck', '--full', '--strict')).toBe('')

    const shallow = await localSandbox()
    await uploadProject(shallow.sandbox, { projectDir: project, git: { depth: 2 } })
    // Two of `main`, and two of `other`, which is two commits behind.
    expect(git(shallow.dir, 'rev-list', '--count', '--first-parent', 'main', '^other')).toBe('2')
    expect(git(shallow.dir, 'rev-parse', '--is-shallow-repository')).toBe('true')
    expect(git(shallow.dir, 'status', '--porcelain')).toBe('')

    const none = await localSandbox()
    await uploadProject(none.sandbox, { projectDir: project, git: 'none' })
    expect(readdirSync(none.dir).sort()).toEqual(['.sandkasten', 'a.txt'])
  })

  it('22: accepts a project that is itself a shallow clone, and a detached HEAD', async () => {
    const origin = repository()
    git(origin, 'commit', '-q', '--allow-empty', '-m', 'second')
    const project = tempFolder('shallow')
    git(project, 'clone', '-q', '--depth', '1', `file://${origin}`, '.')
    git(project, 'checkout', '-q', '--detach')
    write(project, { 'new.txt': 'n' })
    git(project, 'add', '-A')
    git(project, 'commit', '-q', '-m', 'on no branch')
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    expect(git(dir, 'log', '--format=%s')).toBe('on no branch\nsecond')
    expect(git(dir, 'rev-parse', '--abbrev-ref', 'HEAD')).toBe('HEAD')
    expect(git(dir, 'status', '--porcelain')).toBe('')
  })

  it('23: keeps the real remotes without credentials, and no local path', async () => {
    const project = repository()
    git(
      project,
      'remote',
      'add',
      'origin',
      'https://user:ghp_secret@github.com/acme/app.git?token=ghp_secret',
    )
    git(project, 'remote', 'add', 'ssh', 'git@github.com:acme/app.git')
    git(project, 'remote', 'add', 'disk', '/srv/git/app.git')
    git(project, 'remote', 'add', 'url', `file://${project}`)
    git(project, 'config', 'http.https://github.com/.extraheader', 'AUTHORIZATION: basic ghp_secret')
    git(project, 'config', 'core.hooksPath', '/home/me/hooks')
    git(project, 'config', 'user.email', 'local@example.com')
    git(project, 'config', 'branch.main.remote', 'origin')
    git(project, 'config', 'branch.main.merge', 'refs/heads/main')
    git(project, 'update-ref', 'refs/remotes/origin/main', 'HEAD')
    write(project, { '.git/hooks/pre-commit*': '#!/bin/sh\nexit 1\n' })
    const { sandbox, dir } = await localSandbox()
    const { skipped } = await uploadProject(sandbox, { projectDir: project })
    expect(git(dir, 'remote', '-v')).toBe(
      'origin\thttps://github.com/acme/app.git (fetch)\norigin\thttps://github.com/acme/app.git (push)\n' +
        'ssh\tgit@github.com:acme/app.git (fetch)\nssh\tgit@github.com:acme/app.git (push)',
    )
    expect(skipped.map(({ reason }) => reason).join()).toMatch(/“disk” is a folder.*“url” is a folder/s)
    expect(git(dir, 'config', 'user.email')).toBe('local@example.com')
    expect(git(dir, 'status', '-sb', '--porcelain')).toBe('## main...origin/main')
    expect(existsSync(join(dir, '.git/hooks'))).toBe(false)
    const found = spawnSync('grep', ['-raE', `ghp_secret|${project}|/home/me|/srv/git`, dir], {
      encoding: 'utf8',
    })
    expect(found.stdout).toBe('')
  })

  it('24, 29: accepts project and remote paths with spaces, quotes and shell characters', async () => {
    const project = repository(
      { 'a.txt': 'x' },
      join(tempFolder(), `it's a "project" $(touch pwned); %41 #1`),
    )
    const { sandbox, dir } = await localSandbox()
    const result = await uploadProject(sandbox, {
      projectDir: project,
      remotePath: `re'mote "dir"; $(touch pwned) -x`,
    })
    expect(result.remotePath).toBe(join(dir, `re'mote "dir"; $(touch pwned) -x`))
    expect(git(result.remotePath, 'status', '--porcelain')).toBe('')
    expect(readdirSync(dir)).toHaveLength(1)
    const second = await uploadProject(sandbox, {
      projectDir: project,
      remotePath: `re'mote "dir"; $(touch pwned) -x`,
    })
    expect(second).toMatchObject({ sent: 0, unchanged: 1 })
  })

  it('24: keeps names with spaces, quotes, newlines, backslashes, leading dashes, emoji and great length', async () => {
    const long = `${'long-name-'.repeat(12)}/${'x'.repeat(200)}`
    const names = [
      'with space',
      'quo"te\'s',
      'new\nline',
      '-rf',
      '--',
      'back\\slash',
      '🏖️ é',
      'a*b?',
      long,
      '.hidden',
      '..dots',
      'tab\t',
      ' ',
    ]
    const project = repository(Object.fromEntries(names.map((name, index) => [name, `content ${index}`])))
    symlinkSync(`${'./'.repeat(60)}with space`, join(project, 'long link'))
    const { sandbox, dir } = await localSandbox()
    const { sent } = await uploadProject(sandbox, { projectDir: project })
    expect(sent).toBe(names.length + 1)
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$/ }),
    )
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({
      sent: 0,
      unchanged: names.length + 1,
      conflicts: [],
    })
  })

  it('25: writes nothing in the project, works on a read-only one, and leaves nothing in the temp folder', async () => {
    const before = leftovers()
    const project = repository({ 'a.txt': 'x', 'sub/b.txt': 'y' })
    write(project, { 'c.txt': 'untracked', 'a.txt': 'edited' })
    const folders = execFileSync('find', [project, '-type', 'd'], { encoding: 'utf8' }).trim().split('\n')
    for (const folder of folders) chmodSync(folder, 0o555)
    const print = fingerprint(project, { times: true })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    await uploadProject(sandbox, { projectDir: project })
    expect(fingerprint(project, { times: true })).toBe(print)
    expect(git(dir, 'status', '--porcelain')).toBe(' M a.txt\n?? c.txt')
    expect(leftovers()).toEqual(before)
    for (const folder of folders) chmodSync(folder, 0o755)
  })

  it('26: uploads an empty repository with its untracked files', async () => {
    const project = tempFolder()
    git(project, 'init', '-q', '-b', 'trunk')
    const { sandbox, dir } = await localSandbox()
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 0 })
    expect(git(dir, 'symbolic-ref', 'HEAD')).toBe('refs/heads/trunk')
    write(project, { 'first.txt': '1' })
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 1 })
    expect(git(dir, 'status', '--porcelain')).toBe('?? first.txt')
    git(project, 'add', '-A')
    git(project, 'commit', '-q', '-m', 'first')
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 0, conflicts: [] })
    expect(git(dir, 'status', '-sb', '--porcelain')).toBe('## trunk')
  })

  it('26: applies .gitignore in a folder without git, and accepts an empty folder', async () => {
    const project = tempFolder()
    const { sandbox, dir } = await localSandbox()
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 0, bytes: 0 })
    write(project, {
      '.gitignore': 'node_modules\n',
      'app.js': 'app',
      'node_modules/x/index.js': 'no',
      'sub/.gitignore': '*.log\n',
      'sub/a.log': 'l',
      'sub/b': 'b',
    })
    const { sent, head } = await uploadProject(sandbox, { projectDir: project })
    expect([sent, head]).toEqual([4, undefined])
    expect(readdirSync(dir).sort()).toEqual(['.gitignore', '.sandkasten', 'app.js', 'sub'])
    expect(readdirSync(join(dir, 'sub')).sort()).toEqual(['.gitignore', 'b'])
    expect(existsSync(join(project, '.git'))).toBe(false)
  })

  it('26: applies the surrounding repository’s rules in a subfolder, and reports the missing history', async () => {
    const project = repository({ '.gitignore': 'dist\n', 'pkg/a.txt': 'a', 'other/b.txt': 'b' })
    write(project, { 'pkg/dist/x': 'x', 'pkg/new': 'n' })
    const { sandbox, dir } = await localSandbox()
    const { skipped } = await uploadProject(sandbox, { projectDir: join(project, 'pkg') })
    expect(readdirSync(dir).sort()).toEqual(['.sandkasten', 'a.txt', 'new'])
    expect(skipped).toEqual([{ path: '.git', reason: expect.stringContaining('root') }])
    // An ignored subfolder is a project of its own and must not arrive empty.
    const inner = await localSandbox()
    expect(await uploadProject(inner.sandbox, { projectDir: join(project, 'pkg/dist') })).toMatchObject({
      sent: 1,
      skipped: [],
    })
  })

  it('26: sends submodules with files and history, also nested ones', async () => {
    const deep = repository({ 'deep.txt': 'deep' })
    const library = repository({ 'lib.txt': 'lib' })
    git(library, 'submodule', '-q', 'add', deep, 'deep')
    git(library, 'commit', '-q', '-m', 'with deep')
    const project = repository()
    git(project, 'submodule', '-q', 'add', library, 'vendor/lib')
    git(project, 'submodule', '-q', 'update', '--init', '--recursive')
    git(project, 'commit', '-q', '-m', 'with lib')
    write(project, { 'vendor/lib/lib.txt': 'edited', 'vendor/lib/new.txt': 'untracked' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    expect(git(dir, 'submodule', 'status', '--recursive')).toBe(
      git(project, 'submodule', 'status', '--recursive'),
    )
    expect(git(join(dir, 'vendor/lib'), 'status', '--porcelain')).toBe(' M lib.txt\n?? new.txt')
    expect(readFileSync(join(dir, 'vendor/lib/deep/deep.txt'), 'utf8')).toBe('deep')
    expect(git(join(dir, 'vendor/lib'), 'log', '--format=%s')).toBe('with deep\nfirst')
    expect(git(dir, 'status', '--porcelain')).toBe(git(project, 'status', '--porcelain'))
    expect(readFileSync(join(dir, '.git/config'), 'utf8')).not.toContain(library)
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({
      sent: 0,
      removed: 0,
      conflicts: [],
    })
  })

  it('26: a worktree, whose .git is a file, arrives as a repository on its own branch', async () => {
    const main = repository()
    const worktree = join(tempFolder(), 'tree')
    git(main, 'worktree', 'add', '-q', '-b', 'feature', worktree)
    write(worktree, { 'feature.txt': 'f' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: worktree })
    expect(lstatSync(join(dir, '.git')).isDirectory()).toBe(true)
    expect(git(dir, 'status', '-sb', '--porcelain')).toBe('## feature\n?? feature.txt')
    expect(git(dir, 'branch', '--format=%(refname:short)')).toBe('feature\nmain')
    // A detached worktree, whose commit is on no branch.
    git(worktree, 'checkout', '-q', '--detach')
    git(worktree, 'commit', '-q', '--allow-empty', '-m', 'loose')
    const other = await localSandbox()
    await uploadProject(other.sandbox, { projectDir: worktree })
    expect(git(other.dir, 'log', '-1', '--format=%s')).toBe('loose')
  })

  it('26: sends LFS files as in the working tree, and counts them', async () => {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`
    const project = repository({
      '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
      'here.bin': 'x'.repeat(5000),
      'there.bin': pointer,
    })
    const { sandbox, dir } = await localSandbox()
    expect((await uploadProject(sandbox, { projectDir: project })).lfs).toEqual({ content: 1, pointers: 1 })
    expect(readFileSync(join(dir, 'there.bin'), 'utf8')).toBe(pointer)
  })

  it('26: files that a sparse checkout omits are not treated as deleted', async () => {
    const project = repository({ 'in/a': 'a', 'out/b': 'b' })
    git(project, 'sparse-checkout', 'set', 'in')
    const { sandbox, dir } = await localSandbox()
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 1 })
    expect(git(dir, 'status', '--porcelain')).toBe('')
  })

  it('27: concurrent uploads do not interfere', async () => {
    const project = repository()
    const { sandbox } = await localSandbox()
    const results = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        uploadProject(sandbox, { projectDir: project, remotePath: `p${index}` }),
      ),
    )
    expect(results.map(({ sent }) => sent)).toEqual([1, 1, 1, 1, 1, 1])
  })

  it('31: keeps the executable bit, modes and links; omits owners and links that point outside', async () => {
    const project = repository({ 'run.sh*': '#!/bin/sh\n', 'plain.txt': 'p', 'dir/x': 'x' })
    writeFileSync(join(project, 'private.key'), 'k', { mode: 0o600 })
    symlinkSync('plain.txt', join(project, 'link'))
    symlinkSync('../plain.txt', join(project, 'dir/up'))
    symlinkSync('dir', join(project, 'folder-link'))
    symlinkSync('/etc/passwd', join(project, 'absolute'))
    symlinkSync('../../outside', join(project, 'dir/outside'))
    symlinkSync('nowhere', join(project, 'dangling'))
    const { sandbox, dir } = await localSandbox()
    const { skipped } = await uploadProject(sandbox, { projectDir: project })
    expect(skipped.map(({ path }) => path).sort()).toEqual(['absolute', 'dir/outside'])
    expect(statSync(join(dir, 'run.sh')).mode & 0o777).toBe(0o755)
    expect(statSync(join(dir, 'private.key')).mode & 0o777).toBe(0o600)
    expect([
      readlinkSync(join(dir, 'link')),
      readlinkSync(join(dir, 'dir/up')),
      readlinkSync(join(dir, 'folder-link')),
      readlinkSync(join(dir, 'dangling')),
    ]).toEqual(['plain.txt', '../plain.txt', 'dir', 'nowhere'])
    expect(statSync(join(dir, 'run.sh')).uid).toBe(process.getuid?.())
  })

  it('33: streams a large file in bounded memory, and reports progress', async () => {
    const project = tempFolder()
    const block = Buffer.alloc(1024 * 1024, 7)
    mkdirSync(join(project, 'data'))
    for (let i = 0; i < 30; i += 1) writeFileSync(join(project, 'data/big.bin'), block, { flag: 'a' })
    const { sandbox, dir } = await localSandbox()
    const events: ProgressEvent[] = []
    let largest = 0
    const files = new Proxy(sandbox.files, {
      get(target, name) {
        if (name !== 'writeFile') return Reflect.get(target, name).bind(target)
        return (path: string, data: AsyncIterable<Uint8Array>, options: object) =>
          target.writeFile(path, measure(data), options)
      },
    })
    async function* measure(data: AsyncIterable<Uint8Array>) {
      for await (const chunk of data) {
        largest = Math.max(largest, chunk.length)
        yield chunk
      }
    }
    const watched = {
      sandboxId: sandbox.sandboxId,
      workdir: sandbox.workdir,
      files,
      runCommand: sandbox.runCommand.bind(sandbox) as never,
    }
    const { bytes } = await uploadProject(watched, {
      projectDir: project,
      onProgress: (event) => events.push(event),
    })
    expect(bytes).toBe(30 * 1024 * 1024)
    expect(largest).toBeLessThanOrEqual(1024 * 1024)
    expect(statSync(join(dir, 'data/big.bin')).size).toBe(30 * 1024 * 1024)
    expect([...new Set(events.map(({ phase }) => phase))]).toEqual([
      'scan',
      'send',
      'extract',
      'verify',
      'done',
    ])
    expect(readdirSync(join(dir, '.sandkasten')).sort()).toEqual(['.gitignore', 'upload.json'])
  })

  it('keeps its own folder out of the sandbox’s git, and does not send a project folder of that name', async () => {
    const project = repository({ 'a.txt': 'x', '.sandkasten/mine': 'm' })
    const { sandbox, dir } = await localSandbox()
    const { skipped } = await uploadProject(sandbox, { projectDir: project })
    expect(skipped.map(({ path }) => path)).toEqual(['.sandkasten/mine'])
    expect(git(dir, 'status', '--porcelain', '-uall')).toBe(' D .sandkasten/mine')
    expect(readFileSync(join(dir, '.git/info/exclude'), 'utf8')).toContain('/.sandkasten/')
  })
})

import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { pullChanges, uploadProject } from './index.ts'
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

afterAll(removeTempFolders)

async function uploaded(
  files: Record<string, string | Uint8Array>,
  dirty: Record<string, string | null> = {},
) {
  const project = repository(files)
  write(project, dirty)
  const { sandbox, dir } = await localSandbox()
  await uploadProject(sandbox, { projectDir: project })
  return { project, sandbox, dir }
}

const apply = (project: string, patch: string) =>
  execFileSync('git', ['apply', '--binary', '-'], { cwd: project, input: patch })

describe('pullChanges as a patch', () => {
  it('32: returns edits, new, removed, executable, binary, linked and oddly named files, and changes nothing', async () => {
    const { project, sandbox, dir } = await uploaded(
      {
        'a.txt': 'one\n',
        'gone.txt': 'g',
        'tool.sh': '#!',
        'data.bin': Buffer.from([0, 1, 2, 255]),
        'latin.txt': Buffer.from([0xe9, 10]),
        '.gitignore': 'out/\n',
      },
      { 'a.txt': 'dirty\n', untracked: 'u' },
    )
    write(dir, {
      'a.txt': 'dirty\nagent\n',
      'gone.txt': null,
      'tool.sh*': '#!',
      'data.bin': Buffer.from([0, 9]),
      'out/x': 'ignored',
    })
    write(dir, {
      'we"ird\nname 🏖️': 'w',
      'new/deep.txt': 'n',
      'latin.txt': Buffer.from([0xe8, 10]),
      untracked: 'u2',
    })
    symlinkSync('a.txt', join(dir, 'link'))
    const before = [fingerprint(project, { times: true }), leftovers()]
    const result = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect([fingerprint(project, { times: true }), leftovers()]).toEqual(before)
    expect(result).toMatchObject({ conflicts: [], same: [], skipped: [] })
    expect(result.files.map(({ path, change }) => `${change} ${path}`).sort()).toEqual(
      [
        'added link',
        'added new/deep.txt',
        'added we"ird\nname 🏖️',
        'deleted gone.txt',
        'modified a.txt',
        'modified data.bin',
        'modified latin.txt',
        'modified tool.sh',
        'modified untracked',
      ].sort(),
    )
    apply(project, result.patch)
    expect(fingerprint(project, { without: /^\.git$/ })).toBe(
      fingerprint(dir, { without: /^\.git$|^\.sandkasten|^out/ }),
    )
  })

  it('is empty when nothing changed', async () => {
    const { project, sandbox } = await uploaded({ 'a.txt': 'x' })
    expect(await pullChanges(sandbox, { projectDir: project, as: 'patch' })).toMatchObject({
      patch: '',
      files: [],
    })
    expect(await pullChanges(sandbox, { projectDir: project, as: 'branch' })).toEqual(
      expect.not.objectContaining({ branch: expect.anything() }),
    )
  })

  it('32: reports changes on both sides as conflicts with both hashes, and equal changes as the same', async () => {
    const { project, sandbox, dir } = await uploaded({ both: '1', same: '1', mine: '1', removed: '1' })
    write(dir, { both: 'agent', same: 'x', removed: 'agent', created: 'agent' })
    write(project, { both: 'local', same: 'x', mine: 'local', removed: null, created: 'local' })
    const result = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(result.files).toEqual([])
    expect(result.same).toEqual(['same'])
    expect(result.conflicts.map(({ path }) => path)).toEqual(['both', 'created', 'removed'])
    expect(result.conflicts[0]).toMatchObject({
      localSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      sandboxSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  it('works without git on either side of the project, by the sandbox’s .gitignore', async () => {
    const project = tempFolder()
    write(project, { 'a.txt': 'a', '.gitignore': 'no/\n' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(dir, { 'a.txt': 'b', 'no/x': 'x', 'c.txt': 'c' })
    const { files } = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(files.map(({ path }) => path)).toEqual(['a.txt', 'c.txt'])
    await expect(pullChanges(sandbox, { projectDir: project, as: 'branch' })).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: expect.stringContaining('patch'),
    })
  })
})

describe('pullChanges as a branch', () => {
  it('32: keeps the sandbox’s commits, adds the rest on top, and moves no existing branch', async () => {
    const { project, sandbox, dir } = await uploaded(
      { 'a.txt': '1', 'b.txt': '1', 'c.txt': '1' },
      { 'b.txt': 'dirty', 'c.txt': null },
    )
    write(dir, { 'commit.txt': 'c' })
    git(dir, 'add', 'commit.txt')
    git(dir, 'commit', '-q', '-m', 'agent 1')
    git(dir, 'commit', '-q', '--allow-empty', '-m', 'agent 2')
    write(dir, { 'a.txt': 'rest' })
    write(project, { 'a.txt': 'local work' })
    const before = fingerprint(project, { without: /^\.git\/(objects|refs|logs)/ })
    const [head, status] = [git(project, 'rev-parse', 'HEAD'), git(project, 'status', '--porcelain')]
    const result = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(result.branch).toMatchObject({ name: `sandkasten/${sandbox.sandboxId}`, commits: 2 })
    expect(result.conflicts.map(({ path }) => path)).toEqual(['a.txt'])
    expect(git(project, 'log', '--format=%s', result.branch!.name).split('\n').slice(1)).toEqual([
      'agent 2',
      'agent 1',
      'first',
    ])
    expect(git(project, 'ls-tree', '-r', '--name-only', result.branch!.name)).toBe('a.txt\nb.txt\ncommit.txt')
    expect(['a.txt', 'b.txt'].map((name) => git(project, 'show', `${result.branch!.name}:${name}`))).toEqual([
      'rest',
      'dirty',
    ])
    expect([
      fingerprint(project, { without: /^\.git\/(objects|refs|logs)/ }),
      git(project, 'rev-parse', 'HEAD'),
      git(project, 'status', '--porcelain'),
    ]).toEqual([before, head, status])
    expect(git(project, 'branch', '--format=%(refname:short)')).toBe(`main\nsandkasten/${sandbox.sandboxId}`)
    // A taken name gets a number; the branch is never moved.
    const again = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(again.branch!.name).toBe(`sandkasten/${sandbox.sandboxId}-2`)
    expect(
      (await pullChanges(sandbox, { projectDir: project, as: 'branch', branch: 'main' })).branch!.name,
    ).toBe('main-2')
    expect(git(project, 'rev-parse', 'main')).toBe(head)
    await expect(
      pullChanges(sandbox, { projectDir: project, as: 'branch', branch: 'a..b' }),
    ).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(
      pullChanges(sandbox, { projectDir: project, as: 'branch', branch: 'main/x' }),
    ).rejects.toMatchObject({ code: 'conflict' })
  })

  it('keeps the content of unchanged filtered files (LFS) out of a branch', async () => {
    const project = tempFolder()
    git(project, 'init', '-q')
    git(project, 'config', 'filter.lfs.clean', 'sed s/.*/POINTER/')
    write(project, { 'a.txt': '1', '.gitattributes': '*.bin filter=lfs\n', 'x.bin': 'real content\n' })
    git(project, 'add', '-A')
    git(project, 'commit', '-q', '-m', 'first')
    expect(git(project, 'show', 'HEAD:x.bin')).toBe('POINTER')
    const { sandbox, dir } = await localSandbox()
    expect((await uploadProject(sandbox, { projectDir: project })).lfs).toEqual({ content: 1, pointers: 0 })
    expect(readFileSync(join(dir, 'x.bin'), 'utf8')).toBe('real content\n')
    write(dir, { 'a.txt': '2' })
    const { branch } = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(git(project, 'diff', '--name-only', 'main', branch!.name)).toBe('a.txt')
  })

  it('starts a history if the project has none, and works from a worktree and a shallow clone', async () => {
    const empty = tempFolder()
    git(empty, 'init', '-q')
    write(empty, { 'a.txt': 'a' })
    const first = await localSandbox()
    await uploadProject(first.sandbox, { projectDir: empty })
    write(first.dir, { 'b.txt': 'b' })
    const { branch } = await pullChanges(first.sandbox, { projectDir: empty, as: 'branch' })
    expect(git(empty, 'ls-tree', '--name-only', branch!.name)).toBe('a.txt\nb.txt')

    const origin = repository()
    git(origin, 'commit', '-q', '--allow-empty', '-m', 'second')
    const clone = tempFolder('shallow')
    git(clone, 'clone', '-q', '--depth', '1', `file://${origin}`, '.')
    const worktree = join(tempFolder(), 'tree')
    git(clone, 'worktree', 'add', '-q', '-b', 'feature', worktree)
    const second = await localSandbox()
    await uploadProject(second.sandbox, { projectDir: worktree })
    write(second.dir, { 'agent.txt': 'x' })
    git(second.dir, 'add', '-A')
    git(second.dir, 'commit', '-q', '-m', 'agent')
    const pulled = await pullChanges(second.sandbox, {
      projectDir: worktree,
      as: 'branch',
      branch: 'from-agent',
    })
    expect(pulled).toMatchObject({ branch: { name: 'from-agent', commits: 1 }, skipped: [] })
    expect(git(clone, 'log', '--format=%s', 'from-agent')).toBe('agent\nsecond')
  })

  it('includes a submodule’s files in a patch, and reports that a branch cannot contain them', async () => {
    const library = repository({ 'lib.txt': 'lib\n' })
    const project = repository()
    git(project, 'submodule', '-q', 'add', library, 'lib')
    git(project, 'commit', '-q', '-m', 'lib')
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(dir, { 'lib/lib.txt': 'agent\n' })
    const { patch } = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    const branch = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(branch.skipped).toEqual([{ path: 'lib/lib.txt', reason: expect.stringContaining('submodule') }])
    apply(project, patch)
    expect(readFileSync(join(project, 'lib/lib.txt'), 'utf8')).toBe('agent\n')
  })
})

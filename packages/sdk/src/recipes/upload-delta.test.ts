import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { uploadProject } from './index.ts'
import { fingerprint, git, localSandbox, removeTempFolders, repository, write } from './test-kit.ts'

afterAll(removeTempFolders)

describe('a second uploadProject', () => {
  it('30: sends only changes and removes deleted files, with the folders that become empty', async () => {
    const project = repository({ 'a.txt': 'a', 'b.txt': 'b', 'gone/deep/c.txt': 'c', 'tool.sh': '#!' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(project, { 'a.txt': 'A', 'gone/deep/c.txt': null, 'new/d.txt': 'd', 'tool.sh*': '#!' })
    const result = await uploadProject(sandbox, { projectDir: project })
    expect(result).toMatchObject({ sent: 3, unchanged: 1, removed: 1, conflicts: [] })
    expect(result.bytes).toBeLessThan(10)
    expect(existsSync(join(dir, 'gone'))).toBe(false)
    rmSync(join(project, 'gone'), { recursive: true, force: true })
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$/ }),
    )
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({
      sent: 0,
      unchanged: 4,
      removed: 0,
      bytes: 0,
    })
  })

  it('30: replaces a file by a folder, a folder by a file, and a file by a link', async () => {
    const project = repository({ file: 'f', 'folder/x': 'x', 'to-link': 'l', target: 't' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(project, { file: null, 'folder/x': null, 'to-link': null })
    rmSync(join(project, 'folder'), { recursive: true })
    write(project, { 'file/inside': 'i', folder: 'now a file' })
    symlinkSync('target', join(project, 'to-link'))
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({
      sent: 3,
      removed: 2,
      conflicts: [],
    })
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$/ }),
    )
  })

  it('reports changes on both sides, and keeps the sandbox’s version unless forced', async () => {
    const project = repository({
      both: '1',
      local: '1',
      agent: '1',
      'removed-here': '1',
      'removed-there': '1',
      equal: '1',
    })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(dir, {
      both: 'agent',
      agent: 'agent',
      'removed-here': 'agent',
      'removed-there': null,
      equal: 'same',
      extra: 'agent',
    })
    write(project, {
      both: 'local',
      local: 'local',
      'removed-here': null,
      'removed-there': 'local',
      equal: 'same',
      extra: 'local',
    })
    const result = await uploadProject(sandbox, { projectDir: project })
    expect(result.conflicts.map(({ path }) => path).sort()).toEqual([
      'both',
      'extra',
      'removed-here',
      'removed-there',
    ])
    expect(result).toMatchObject({ sent: 1, removed: 0, unchanged: 2 })
    const at = (name: string) =>
      existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : undefined
    expect(['both', 'local', 'agent', 'removed-here', 'removed-there', 'extra'].map(at)).toEqual([
      'agent',
      'local',
      'agent',
      'agent',
      undefined,
      'agent',
    ])
    expect((await uploadProject(sandbox, { projectDir: project })).conflicts).toHaveLength(4)
    const forced = await uploadProject(sandbox, { projectDir: project, force: true })
    expect(forced.conflicts).toEqual([])
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$/ }),
    )
  })

  it('never writes or removes through a link that the sandbox put in place of a folder', async () => {
    const project = repository({ 'dir/a': '1', 'dir/b': '1' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    mkdirSync(join(dir, 'elsewhere'))
    write(dir, { 'elsewhere/a': '1', 'elsewhere/b': '1' })
    rmSync(join(dir, 'dir'), { recursive: true })
    symlinkSync('elsewhere', join(dir, 'dir'))
    write(project, { 'dir/a': '2', 'dir/b': null })
    const { conflicts } = await uploadProject(sandbox, { projectDir: project, force: true })
    expect(conflicts.map(({ path }) => path).sort()).toEqual(['dir/a', 'dir/b'])
    expect(readFileSync(join(dir, 'elsewhere/a'), 'utf8')).toBe('1')
    expect(existsSync(join(dir, 'elsewhere/b'))).toBe(true)
  })

  it('does not overwrite files that were in the folder before the first upload', async () => {
    const { sandbox, dir } = await localSandbox()
    write(dir, { 'a.txt': 'theirs', 'b.txt': 'equal' })
    git(dir, 'init', '-q')
    const project = repository({ 'a.txt': 'ours', 'b.txt': 'equal', 'c.txt': 'c' })
    const result = await uploadProject(sandbox, { projectDir: project })
    expect(result).toMatchObject({ sent: 1, unchanged: 1 })
    expect(result.conflicts.map(({ path }) => path)).toEqual(['a.txt', '.git'])
    expect(readFileSync(join(dir, 'a.txt'), 'utf8')).toBe('theirs')
  })

  it('sends new commits, branches, tags and HEAD as an incremental bundle', async () => {
    const project = repository({ 'a.txt': 'x'.repeat(200_000) })
    git(project, 'branch', 'old')
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    git(project, 'checkout', '-q', '-b', 'feature')
    write(project, { 'b.txt': 'b' })
    git(project, 'add', '-A')
    git(project, 'commit', '-q', '-m', 'second')
    git(project, 'tag', '-a', '-m', 'annotated', 'v1')
    git(project, 'branch', '-D', '-q', 'old')
    const { conflicts, bytes } = await uploadProject(sandbox, { projectDir: project })
    expect(conflicts).toEqual([])
    expect(bytes).toBeLessThan(2000)
    expect(git(dir, 'for-each-ref')).toBe(git(project, 'for-each-ref'))
    expect(git(dir, 'status', '-sb', '--porcelain')).toBe('## feature')
    // Rewritten history, and a branch that starts at an old commit.
    git(project, 'commit', '-q', '--amend', '-m', 'amended')
    git(project, 'branch', 'again', 'main')
    expect((await uploadProject(sandbox, { projectDir: project })).conflicts).toEqual([])
    expect(git(dir, 'for-each-ref')).toBe(git(project, 'for-each-ref'))
    expect(git(dir, 'fsck')).not.toContain('missing')
  })

  it('keeps a branch with the sandbox’s own commits, moves the others, and keeps staged changes', async () => {
    const project = repository({ 'a.txt': 'a', 'b.txt': 'b' })
    git(project, 'branch', 'side')
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(dir, { 'agent.txt': 'a' })
    git(dir, 'add', 'agent.txt')
    git(dir, 'commit', '-q', '-m', 'by the agent')
    const agents = git(dir, 'rev-parse', 'main')
    git(project, 'commit', '-q', '--allow-empty', '-m', 'here')
    git(project, 'branch', '-f', 'side', 'main')
    const { conflicts } = await uploadProject(sandbox, { projectDir: project })
    expect(conflicts.map(({ path }) => path)).toEqual(['refs/heads/main'])
    expect(git(dir, 'rev-parse', 'main')).toBe(agents)
    expect(git(dir, 'rev-parse', 'side')).toBe(git(project, 'rev-parse', 'side'))
  })

  it('updates the index when HEAD moves below staged changes', async () => {
    const project = repository({ 'a.txt': 'a', 'b.txt': 'b' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(dir, { 'staged.txt': 's' })
    git(dir, 'add', 'staged.txt')
    write(project, { 'a.txt': 'a2' })
    git(project, 'commit', '-q', '-a', '-m', 'second')
    expect((await uploadProject(sandbox, { projectDir: project })).conflicts).toEqual([])
    expect(git(dir, 'status', '--porcelain')).toBe('A  staged.txt')
  })
})

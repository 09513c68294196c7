import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { pullChanges, uploadProject } from './index.ts'
import { isSafePath, leadsOutside } from './paths.ts'
import { parseManifest } from './remote/manifest.ts'
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
import type { RecipeSandbox } from './types.ts'

afterAll(removeTempFolders)

async function uploaded(files: Record<string, string> = { 'a.txt': '1' }) {
  const project = repository(files)
  const { sandbox, dir } = await localSandbox()
  await uploadProject(sandbox, { projectDir: project })
  return { project, sandbox, dir }
}

/** A sandbox whose git lists the given names. */
function lying(
  sandbox: RecipeSandbox,
  answer: (args: readonly string[]) => string | undefined,
): RecipeSandbox {
  const runCommand = (async (options: { cmd: string; args: string[] }) => {
    const stdout = options.cmd === 'git' ? answer(options.args) : undefined
    if (stdout !== undefined)
      return { exitCode: 0, stdout, stderr: '', timedOut: false, truncated: false, durationMs: 1 }
    return sandbox.runCommand(options as never)
  }) as RecipeSandbox['runCommand']
  return { sandboxId: sandbox.sandboxId, workdir: sandbox.workdir, files: sandbox.files, runCommand }
}

describe('pullChanges from a hostile sandbox', () => {
  it.each([
    '../x',
    'a/../../x',
    '/etc/passwd',
    '.git/config',
    'a/.git/hooks/x',
    '.GIT/x',
    'git~1/x',
    '.git./x',
    '.git /x',
    '.g\u200cit/x',
    '.git::$INDEX_ALLOCATION/x',
    'a\\..\\x',
    'a\\.git\\x',
    'C:\\x',
    'c:x',
    'a//b',
    './a',
    '',
    'a\0b',
  ])('rejects the name %j', (name) => {
    expect(isSafePath(name)).toBe(false)
  })

  it('accepts unusual names', () => {
    for (const name of [
      'a',
      '.github/x',
      '.gitignore',
      'git',
      '..a',
      'a..b',
      ' ',
      '-rf',
      'new\nline',
      'back\\slash',
    ])
      expect(isSafePath(name)).toBe(true)
    expect([
      leadsOutside('a/b', '../c'),
      leadsOutside('a/b', '../../c'),
      leadsOutside('b', '/c'),
      leadsOutside('a/b', 'x/../../../c'),
    ]).toEqual([false, true, true, true])
  })

  it('reports unsafe names, and writes nothing outside', async () => {
    const { project, sandbox } = await uploaded()
    const outside = tempFolder('outside')
    const names = [
      '../escaped',
      `${outside}/escaped`,
      '.git/hooks/post-checkout',
      '.GIT/config',
      'git~1/config',
    ]
    const evil = lying(sandbox, (args) =>
      args.includes('--others') ? names.map((name) => `${name}\0`).join('') : undefined,
    )
    const before = [fingerprint(project, { times: true }), leftovers()]
    for (const as of ['patch', 'branch'] as const) {
      const result = await pullChanges(evil, { projectDir: project, as })
      expect(result.skipped.map(({ path }) => path)).toEqual(names)
      expect(result.files).toEqual([])
    }
    expect([fingerprint(project, { times: true }), leftovers()]).toEqual(before)
    expect(fingerprint(outside)).toBe('')
  })

  it('skips links that point outside and special files, also if the sandbox committed them', async () => {
    const { project, sandbox, dir } = await uploaded()
    symlinkSync('/etc/passwd', join(dir, 'absolute'))
    symlinkSync('../../..', join(dir, 'up'))
    git(dir, 'add', '-A')
    git(dir, 'commit', '-q', '-m', 'links')
    write(dir, { 'a.txt': '2' })
    rmSync(join(dir, '.gitignore'), { force: true })
    const patch = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(patch.files.map(({ path }) => path)).toEqual(['a.txt'])
    const { branch, skipped } = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(skipped.map(({ path }) => path).sort()).toEqual(['absolute', 'up'])
    expect(git(project, 'ls-tree', '-r', '--name-only', branch!.name)).toBe('a.txt')
    // A device or a pipe instead of a file.
    rmSync(join(dir, 'a.txt'))
    execFileSync('mkfifo', [join(dir, 'a.txt')])
    const piped = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(piped.skipped.map(({ path }) => path)).toContain('a.txt')
  })

  it('does not read local files through local links that point outside', async () => {
    const { project, sandbox, dir } = await uploaded()
    const secret = tempFolder('secret')
    write(secret, { key: 'private' })
    symlinkSync(secret, join(project, 'linked'))
    write(dir, { 'linked/key': 'guess' })
    const { patch, conflicts } = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(patch).toBe('')
    expect(conflicts).toEqual([
      { path: 'linked/key', reason: expect.any(String), sandboxSha256: expect.any(String) },
    ])
  })

  it('runs no hook, filter, monitor or helper that the sandbox configured', async () => {
    const { project, sandbox, dir } = await uploaded()
    const flag = join(tempFolder('flag'), 'ran')
    write(dir, { '.gitattributes': '* filter=evil diff=evil\n', '.lfsconfig': 'x', 'a.txt': '2' })
    git(dir, 'add', '-A')
    git(dir, 'commit', '-q', '-m', 'agent')
    write(dir, { 'a.txt': '3' })
    // The sandbox's own git must not run it, so that only a run on this machine is detected.
    writeFileSync(
      join(dir, '.git/config'),
      `${readFileSync(join(dir, '.git/config'), 'utf8')}[include]\n\tpath = evil\n`,
    )
    const script = `#!/bin/sh\ntouch ${flag}\n`
    write(project, { '.git/hooks/reference-transaction*': script, '.git/hooks/post-checkout*': script })
    git(project, 'config', 'filter.evil.clean', `touch ${flag}; cat`)
    git(project, 'config', 'diff.evil.textconv', `touch ${flag}; cat`)
    git(project, 'config', 'core.fsmonitor', join(project, '.git/hooks/post-checkout'))
    await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect((await pullChanges(sandbox, { projectDir: project, as: 'branch' })).branch).toMatchObject({
      commits: 1,
    })
    expect(existsSync(flag)).toBe(false)
  })

  it('rejects commits whose trees contain a .git, and still pulls the files', async () => {
    const { project, sandbox, dir } = await uploaded()
    const blob = execFileSync('git', ['hash-object', '-w', '--stdin'], {
      cwd: dir,
      input: 'evil',
      encoding: 'utf8',
    }).trim()
    const inner = execFileSync('git', ['mktree'], {
      cwd: dir,
      input: `100644 blob ${blob}\tconfig\n`,
      encoding: 'utf8',
    }).trim()
    const raw = Buffer.concat([Buffer.from('40000 .git\0'), Buffer.from(inner, 'hex')])
    const tree = execFileSync('git', ['hash-object', '-w', '-t', 'tree', '--literally', '--stdin'], {
      cwd: dir,
      input: raw,
      encoding: 'utf8',
    }).trim()
    const commit = git(dir, 'commit-tree', tree, '-p', 'HEAD', '-m', 'evil')
    git(dir, 'update-ref', 'refs/heads/main', commit)
    write(dir, { 'good.txt': 'good' })
    const { branch, skipped } = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect(skipped).toContainEqual({
      path: '.git',
      reason: expect.stringContaining('commits were not taken'),
    })
    expect(git(project, 'ls-tree', '-r', '--name-only', branch!.name)).toBe('a.txt\ngood.txt')
    expect(spawnable(project, commit)).toBe(false)
  })

  it('does not trust a forged manifest', async () => {
    const { project, sandbox, dir } = await uploaded({ 'a.txt': '1', 'b.txt': '1' })
    const file = join(dir, '.sandkasten/upload.json')
    const real = JSON.parse(readFileSync(file, 'utf8'))
    const entry = real.files['a.txt']
    const forged = {
      ...real,
      files: {
        ...real.files,
        '../../outside': entry,
        '/etc/passwd': entry,
        '.git/config': entry,
        __proto__: entry,
      },
      repos: {
        '': {
          sent: true,
          head: '--upload-pack=touch x',
          ref: 'refs/heads/x\ndelete refs/heads/main',
          refs: { '--exec': 'x', 'refs/heads/a b': entry.sha256 },
        },
        '../..': { refs: {} },
      },
    }
    writeFileSync(file, JSON.stringify(forged))
    expect([...parseManifest(JSON.stringify(forged))!.files.keys()]).toEqual(['a.txt', 'b.txt'])
    expect(parseManifest(JSON.stringify(forged))!.repos).toEqual(new Map([['', { sent: true, refs: {} }]]))
    expect(await pullChanges(sandbox, { projectDir: project, as: 'patch' })).toMatchObject({
      files: [],
      conflicts: [],
    })
    // An upload that trusted it would remove files outside.
    const outside = join(dir, '../../outside')
    writeFileSync(outside, '1')
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ removed: 0 })
    expect(existsSync(outside)).toBe(true)
    for (const text of ['', '[]', '{"version":9}', '{"version":1,"files":[],"repos":{}}', 'x'.repeat(1000)]) {
      writeFileSync(file, text)
      await expect(pullChanges(sandbox, { projectDir: project, as: 'patch' })).rejects.toMatchObject({
        code: 'file_not_found',
      })
    }
  })

  it('skips huge files, and stops at the total limit', async () => {
    const { project, sandbox, dir } = await uploaded()
    write(dir, { 'huge.bin': 'x'.repeat(50_000), 'small.txt': 's' })
    const result = await pullChanges(sandbox, { projectDir: project, as: 'patch', maxFileBytes: 10_000 })
    expect(result.files.map(({ path }) => path)).toEqual(['small.txt'])
    expect(result.skipped).toEqual([
      { path: 'huge.bin', reason: expect.stringContaining('larger than 10000') },
    ])
    for (const as of ['patch', 'branch'] as const) {
      await expect(
        pullChanges(sandbox, { projectDir: project, as, maxTotalBytes: 1000 }),
      ).rejects.toMatchObject({ code: 'too_large' })
    }
    expect(git(project, 'branch', '--format=%(refname:short)')).toBe('main')
  })

  it('does not pull a repository that the sandbox added to the project', async () => {
    const { project, sandbox, dir } = await uploaded()
    mkdirSync(join(dir, 'dependency'))
    repository({ x: 'x' }, join(dir, 'dependency'))
    const { files, skipped } = await pullChanges(sandbox, { projectDir: project, as: 'branch' })
    expect([files, skipped]).toEqual([
      [],
      [{ path: 'dependency', reason: expect.stringContaining('of its own') }],
    ])
  })
})

function spawnable(project: string, commit: string): boolean {
  try {
    git(project, 'cat-file', '-e', commit)
    return true
  } catch {
    return false
  }
}

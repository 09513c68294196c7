import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import { LocalProvider } from '../providers/local/index.ts'
import { MemoryProvider } from '../providers/memory/index.ts'
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
import type { RecipeSandbox } from './types.ts'

afterAll(removeTempFolders)

const isRoot = process.getuid?.() === 0

function without(
  sandbox: RecipeSandbox,
  replace: (options: { cmd: string; args: string[] }) => unknown,
): RecipeSandbox {
  const runCommand = (async (options: { cmd: string; args: string[] }) => {
    const other = replace(options)
    if (other instanceof Error) throw other
    return other ?? sandbox.runCommand(options as never)
  }) as RecipeSandbox['runCommand']
  return { sandboxId: sandbox.sandboxId, workdir: sandbox.workdir, files: sandbox.files, runCommand }
}

const failed = (stderr: string) => ({
  exitCode: 2,
  stdout: '',
  stderr,
  timedOut: false,
  truncated: false,
  durationMs: 1,
})

describe('uploadProject with missing programs and faults', () => {
  it('writes file by file if the sandbox has no programs', async () => {
    const project = repository({ 'a.txt': 'a', 'b/run.sh*': '#!', 'odd\nname': 'o' })
    execFileSync('ln', ['-s', 'a.txt', join(project, 'link')])
    const { sandbox, dir } = await localSandbox()
    const bare = without(sandbox, ({ cmd }) => new SandboxError('command_not_found', cmd))
    expect(await uploadProject(bare, { projectDir: project })).toMatchObject({ sent: 4, conflicts: [] })
    expect(fingerprint(dir, { without: /^\.git$|^\.sandkasten/ })).toBe(
      fingerprint(project, { without: /^\.git$/ }),
    )
    expect(git(dir, 'status', '--porcelain')).toBe('?? link')
    write(project, { 'a.txt': 'A', 'b/run.sh': null })
    expect(await uploadProject(bare, { projectDir: project })).toMatchObject({
      sent: 1,
      removed: 1,
      unchanged: 2,
    })
    expect(readdirSync(dir).sort()).toEqual(['.git', '.sandkasten', 'a.txt', 'link', 'odd\nname'])
    write(dir, { 'a.txt': 'agent' })
    const { files } = await pullChanges(bare, { projectDir: project, as: 'patch' })
    expect(files).toEqual([{ path: 'a.txt', change: 'modified' }])
  })

  it('works on the in-memory provider', async () => {
    const project = repository({ 'a.txt': 'a', 'b/c.txt': 'c' })
    const sandbox = await new MemoryProvider().create()
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 2 })
    expect(await sandbox.files.readFile('b/c.txt', 'utf8')).toBe('c')
    await sandbox.writeFile('a.txt', 'agent')
    const { files } = await pullChanges(sandbox, { projectDir: project, as: 'patch' })
    expect(files.map(({ path }) => path)).toEqual(['a.txt'])
  })

  it('28: a failed extraction is an error with the output of tar, and leaves nothing behind', async () => {
    const project = repository()
    const { sandbox, dir } = await localSandbox()
    const broken = without(sandbox, ({ cmd }) => (cmd === 'tar' ? failed('tar: broken') : undefined))
    const before = leftovers()
    await expect(
      uploadProject(broken, { projectDir: project, remotePath: 'new/folder' }),
    ).rejects.toMatchObject({
      code: 'provider_error',
      message: expect.stringContaining('tar: broken'),
      hint: expect.stringContaining('remotePath'),
    })
    expect(readdirSync(dir)).toEqual([])
    expect(leftovers()).toEqual(before)
  })

  it('28: an extraction that loses or changes files is detected before anything is replaced', async () => {
    const project = repository({ 'a.txt': '1', 'b.txt': '1' })
    const { sandbox, dir } = await localSandbox()
    await uploadProject(sandbox, { projectDir: project })
    write(project, { 'a.txt': '2', 'b.txt': '2' })
    const lossy = without(sandbox, ({ cmd }) => (cmd === 'tar' ? { ...failed(''), exitCode: 0 } : undefined))
    await expect(uploadProject(lossy, { projectDir: project })).rejects.toMatchObject({
      code: 'provider_error',
      details: { paths: ['a.txt', 'b.txt'] },
    })
    expect([readFileSync(join(dir, 'a.txt'), 'utf8'), readdirSync(join(dir, '.sandkasten')).sort()]).toEqual([
      '1',
      ['.gitignore', 'upload.json'],
    ])
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 2, conflicts: [] })
  })

  it('errors name what to change: projectDir, options, a missing upload', async () => {
    const { sandbox } = await localSandbox()
    const file = join(tempFolder(), 'file')
    writeFileSync(file, 'x')
    const project = repository()
    for (const [opts, code] of [
      [{ projectDir: '/does/not/exist' }, 'file_not_found'],
      [{ projectDir: file }, 'not_a_directory'],
      [{ projectDir: '' }, 'invalid_argument'],
      [{ projectDir: project, git: 'all' }, 'invalid_argument'],
      [{ projectDir: project, git: { depth: -1 } }, 'invalid_argument'],
      [{ projectDir: project, remotepath: 'x' }, 'invalid_argument'],
      [undefined, 'invalid_argument'],
    ] as const) {
      await expect(uploadProject(sandbox, opts as never)).rejects.toMatchObject({
        code,
        hint: expect.stringMatching(/\w/),
      })
    }
    await expect(pullChanges(sandbox, { projectDir: project, as: 'patch' })).rejects.toMatchObject({
      code: 'file_not_found',
      hint: expect.stringContaining('uploadProject'),
    })
    await expect(pullChanges(sandbox, { projectDir: project, as: 'zip' as 'patch' })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it('reports that git is missing on this machine', async () => {
    const { sandbox } = await localSandbox()
    const path = process.env.PATH
    process.env.PATH = '/nowhere'
    try {
      await expect(uploadProject(sandbox, { projectDir: tempFolder() })).rejects.toMatchObject({
        code: 'command_not_found',
        hint: expect.stringContaining('Install git'),
      })
    } finally {
      process.env.PATH = path
    }
  })

  it('28: names a remotePath that is not writable', async () => {
    const { sandbox, dir } = await localSandbox()
    writeFileSync(join(dir, 'file'), 'x')
    await expect(
      uploadProject(sandbox, { projectDir: repository(), remotePath: 'file' }),
    ).rejects.toMatchObject({ hint: expect.stringContaining('remotePath') })
    await expect(
      uploadProject(sandbox, { projectDir: repository(), remotePath: '/workspace-nobody' }),
    ).rejects.toMatchObject({ hint: expect.stringContaining('remotePath') })
    expect(existsSync('/workspace-nobody')).toBe(false)
  })

  it('a cancelled upload leaves nothing on either side', async () => {
    const project = tempFolder()
    for (let i = 0; i < 20; i += 1) writeFileSync(join(project, `${i}.bin`), Buffer.alloc(1024 * 1024, i))
    const { sandbox, dir } = await localSandbox()
    const before = leftovers()
    for (const phase of ['scan', 'send', 'extract', 'verify'] as const) {
      const controller = new AbortController()
      const onProgress = (event: { phase: string }) => {
        if (event.phase === phase) controller.abort()
      }
      await expect(
        uploadProject(sandbox, { projectDir: project, signal: controller.signal, onProgress }),
      ).rejects.toMatchObject({ code: 'aborted' })
      expect([phase, readdirSync(dir), leftovers()]).toEqual([phase, [], before])
    }
    await expect(
      uploadProject(sandbox, { projectDir: project, signal: AbortSignal.abort() }),
    ).rejects.toMatchObject({ code: 'aborted' })
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 20 })
  })

  it('a file that changes during the upload is recorded as it was sent', async () => {
    const project = repository({ 'a.txt': 'a', 'b.txt': 'before' })
    const { sandbox, dir } = await localSandbox()
    let changed = false
    const onProgress = (event: { phase: string }) => {
      if (event.phase === 'pack' && !changed) {
        changed = true
        write(project, { 'b.txt': 'after!', 'a.txt': null })
      }
    }
    const first = await uploadProject(sandbox, { projectDir: project, onProgress })
    expect(first).toMatchObject({
      sent: 1,
      skipped: [{ path: 'a.txt', reason: expect.stringContaining('disappeared') }],
    })
    expect(readFileSync(join(dir, 'b.txt'), 'utf8')).toBe('after!')
    expect(await uploadProject(sandbox, { projectDir: project })).toMatchObject({ sent: 0, conflicts: [] })
  })

  it('a full disk in the sandbox is disk_full, and no partial result is left', async (context) => {
    const root = tempFolder('disk')
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', root], { stdio: 'pipe' })
    } catch {
      return context.skip('mounting a small disk needs root on Linux')
    }
    try {
      const sandbox = await new LocalProvider({ root, acceptNoIsolation: true }).create()
      const project = tempFolder()
      // The archive fits, but its unpacked content does not.
      writeFileSync(join(project, 'big.bin'), Buffer.alloc(2 * 1024 * 1024))
      await expect(uploadProject(sandbox, { projectDir: project })).rejects.toMatchObject({
        code: 'disk_full',
        hint: expect.stringMatching(/space/i),
      })
      expect(readdirSync(sandbox.workdir)).toEqual([])
      // The archive does not fit.
      writeFileSync(join(project, 'big.bin'), Buffer.alloc(8 * 1024 * 1024))
      await expect(uploadProject(sandbox, { projectDir: project })).rejects.toMatchObject({
        code: 'disk_full',
      })
      expect(readdirSync(sandbox.workdir)).toEqual([])
      await sandbox.destroy()
    } finally {
      execFileSync('umount', [root])
    }
  })

  it('reports an unreadable file', async ({ skip }) => {
    if (isRoot) skip('root may read everything')
    const project = repository({ 'a.txt': 'a', 'b.txt': 'b' })
    chmodSync(join(project, 'b.txt'), 0)
    mkdirSync(join(project, 'x'))
    const { sandbox } = await localSandbox()
    expect((await uploadProject(sandbox, { projectDir: project })).skipped.map(({ path }) => path)).toEqual([
      'b.txt',
    ])
  })
})

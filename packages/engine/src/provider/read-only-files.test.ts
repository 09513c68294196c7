import { randomBytes } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { appendFile, chmod, mkdtemp, rm, truncate, unlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { ReadOnlyFiles } from './read-only-files.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-read-only-'))
const program = path.join(root, 'program')
const copies = path.join(root, 'engine/read-only')
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root: path.join(root, 'engine') })
const readOnly = { readOnly: true }

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', script] })
  return (stdout + stderr).trim()
}

async function destroyAll(): Promise<void> {
  for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
}

/** A script with enough bytes behind it to be shared. The file must be older than a second. */
async function writeProgram(says: string): Promise<void> {
  await writeFile(program, `#!/bin/sh\necho ${says}\nexit\n`)
  await appendFile(program, randomBytes(5 * 1024 * 1024))
  await settle()
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 1100))

describe('uploadFile with readOnly', () => {
  beforeEach((ctx) => ctx.skip(skipped !== undefined, skipped))
  beforeAll(async () => {
    await writeProgram('one')
    await chmod(program, 0o600)
    await settle()
  })
  afterAll(async () => {
    await destroyAll()
    await provider.close()
    await rm(root, { recursive: true, force: true })
  })

  it('shares one copy, which sandboxes can run but not change', async () => {
    const [first, second] = [await provider.create(), await provider.create()]
    for (const sandbox of [first, second]) await sandbox.uploadFile(program, 'bin/program', readOnly)
    expect(readdirSync(copies)).toHaveLength(1)
    expect(statSync(path.join(copies, readdirSync(copies)[0]!)).nlink).toBe(3)
    expect(await sh(first, './bin/program')).toBe('one')
    expect(await sh(first, 'echo bad >>bin/program')).toMatch(/Permission denied/)
    expect(await sh(first, 'chmod 777 $(readlink bin/program)')).toMatch(/Read-only file system/)
    expect(await sh(first, 'rm -f $(readlink bin/program)')).toMatch(/Read-only file system/)
    expect(await sh(first, 'touch /run/sandkasten-files/x')).toMatch(/Read-only file system/)
    expect(await sh(second, './bin/program')).toBe('one')
  })

  it('hides files that were shared with other sandboxes', async () => {
    const other = await provider.create()
    expect(await sh(other, 'ls -A /run/sandkasten-files')).toBe('')
  })

  it('keeps the file through stops, and when the original changes or goes', async () => {
    const sandbox = await provider.create()
    await sandbox.uploadFile(program, 'program', readOnly)
    await writeProgram('two')
    const later = await provider.create()
    await later.uploadFile(program, 'program', readOnly)
    await unlink(program)
    await sandbox.stop()
    await sandbox.start()
    expect(await sh(sandbox, './program')).toBe('one')
    expect(await sh(later, './program')).toBe('two')
    await writeProgram('one')
    await chmod(program, 0o755)
    await settle()
  })

  it('replaces a file, refuses a folder, and reports a missing original', async () => {
    const sandbox = await provider.create()
    await sandbox.writeFile('program', 'old')
    await sandbox.uploadFile(program, 'program', readOnly)
    expect(await sh(sandbox, './program')).toBe('one')
    await sandbox.files.mkdir('folder')
    await expect(sandbox.uploadFile(program, 'folder', readOnly)).rejects.toMatchObject({
      code: 'is_a_directory',
    })
    await expect(sandbox.uploadFile(`${program}-none`, 'x', readOnly)).rejects.toMatchObject({
      code: 'file_not_found',
    })
    expect(await sh(sandbox, 'ls -A')).toBe('folder\nprogram')
  })

  it('copies small files, and files that have just changed', async () => {
    const sandbox = await provider.create()
    const small = path.join(root, 'small')
    await writeFile(small, 'small')
    const fresh = path.join(root, 'fresh')
    await writeFile(fresh, randomBytes(5 * 1024 * 1024))
    for (const file of [small, fresh]) await sandbox.uploadFile(file, path.basename(file), readOnly)
    expect(await sh(sandbox, 'readlink small fresh; wc -c <fresh')).toBe(String(5 * 1024 * 1024))
  })

  it('replaces a copy that a power failure has cut off', async () => {
    const copy = () => path.join(copies, readdirSync(copies)[0]!)
    await destroyAll()
    for (const name of readdirSync(copies)) await rm(path.join(copies, name))
    const sandbox = await provider.create()
    await sandbox.uploadFile(program, 'program', readOnly)
    await sandbox.destroy()
    await truncate(copy(), 1000)
    const next = await provider.create()
    await next.uploadFile(program, 'program', readOnly)
    expect(await sh(next, './program')).toBe('one')
    expect(statSync(copy()).size).toBe(statSync(program).size)
  })

  it('sweeps drafts of killed processes, and copies that are unused for a week', async () => {
    const sandbox = await provider.create()
    await sandbox.uploadFile(program, 'program', readOnly)
    const used = readdirSync(copies)
    const store = new ReadOnlyFiles(() => path.join(root, 'engine'))
    const week = 7 * 24 * 60 * 60_000
    for (const name of ['.draft', 'unused']) await writeFile(path.join(copies, name), 'x')
    await utimes(path.join(copies, '.draft'), 0, 0)
    await provider.sweep()
    expect(readdirSync(copies)).toEqual([...used, 'unused'])
    await store.sweep(Date.now() + week + 60_000)
    expect(readdirSync(copies)).toEqual(used)
    await destroyAll()
    await store.sweep(Date.now() + week - 60_000)
    expect(readdirSync(copies)).toEqual(used)
    await store.sweep(Date.now() + week + 60_000)
    expect(readdirSync(copies)).toEqual([])
  })
})

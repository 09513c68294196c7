import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { leftoversOf, sshdProgram, startSshd, type TestSshd } from './test-helper.ts'

/** Uses a disk of 4 MiB, which only root can mount. */
describe.skipIf(!sshdProgram)('a host whose disk is full', () => {
  let sshd: TestSshd
  let mounted = false
  const disk = () => path.join(sshd.folder, 'disk')
  const fill = () => {
    for (const size of [65536, 4096, 1])
      try {
        for (let at = 0; ; at += 1) writeFileSync(path.join(disk(), `fill-${size}-${at}`), Buffer.alloc(size))
      } catch {
        // The disk is full.
      }
  }
  const empty = () => {
    for (const name of readdirSync(disk())) if (name.startsWith('fill-')) rmSync(path.join(disk(), name))
  }
  beforeAll(async () => {
    sshd = await startSshd()
    mkdirSync(disk())
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,nr_inodes=4000', 'tmpfs', disk()], {
        stdio: 'ignore',
      })
      mounted = true
    } catch {
      // Mounting is not permitted.
    }
  })
  afterAll(async () => {
    if (mounted) execFileSync('umount', ['-l', disk()])
    await sshd[Symbol.asyncDispose]()
  })
  const provider = () => sshd.provider({ root: path.join(disk(), 'sandkasten') })
  const test = (name: string, work: () => Promise<void>) =>
    it(name, async ({ skip }) => {
      if (!mounted) return skip('mounting a small disk needs root')
      try {
        await work()
      } finally {
        empty()
      }
    })

  test('a write fails with disk_full, keeps the old content, and leaves no partial file', async () => {
    const sandbox = await provider().create()
    await sandbox.files.writeFile('file', 'old')
    const full = { code: 'disk_full', hint: expect.stringContaining('root') }
    await expect(sandbox.files.writeFile('file', new Uint8Array(6_000_000))).rejects.toMatchObject(full)
    expect(await sandbox.files.readFile('file', 'utf8')).toBe('old')
    await expect(sandbox.files.appendFile('file', new Uint8Array(6_000_000))).rejects.toMatchObject(full)
    await sandbox.files.rm('file')
    await sandbox.files.writeFile('file', 'new')
    expect(await sandbox.files.readdir('.')).toEqual(['file'])
    await sandbox.destroy()
  })

  test('a program keeps printing, and the reader learns that output is missing', async () => {
    const sandbox = await provider().create()
    const script = 'echo first; while ! test -e full; do sleep 0.05; done; head -c 3000000 /dev/zero; exit 3'
    const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job', detached: true })
    await process.output()[Symbol.asyncIterator]().next()
    fill()
    writeFileSync(path.join(sandbox.workdir, 'full'), '')
    const result = await process.wait()
    expect([result.exitCode, result.truncated]).toEqual([3, true])
    expect(result.stdout.startsWith('first\n')).toBe(true)
    expect(result.stdout.length).toBeLessThan(3_000_000)
    expect(await process.status()).toMatchObject({ running: false, exit: { exitCode: 3 } })
    await sandbox.destroy()
  })

  test('a shell command keeps printing, and the shell stays usable', async () => {
    const sandbox = await provider().create()
    const shell = await sandbox.openShell()
    const command =
      'echo first; while ! test -e full; do sleep 0.05; done; head -c 3000000 /dev/zero; (exit 3)'
    let printed = ''
    const running = shell.exec(command, { onOutput: (text) => (printed += text) })
    await expect.poll(() => printed).toBe('first\n')
    fill()
    writeFileSync(path.join(sandbox.workdir, 'full'), '')
    const result = await running
    expect([result.exitCode, result.truncated]).toEqual([3, true])
    empty()
    expect(await shell.exec('echo $?')).toMatchObject({ output: '3\n', truncated: false })
    await sandbox.destroy()
  })

  test('new programs fail with disk_full; stop and destroy work', async () => {
    const sandbox = await provider().create()
    const process = await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
    fill()
    const full = { code: 'disk_full' }
    await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject(full)
    await expect(provider().create()).rejects.toMatchObject(full)
    await sandbox.stop()
    expect((await sandbox.info()).status).toBe('stopped')
    await expect(process.status()).rejects.toMatchObject({ code: 'not_running' })
    expect(await sandbox.destroy()).toBe(true)
    expect(leftoversOf(path.join(disk(), 'sandkasten'))(sandbox.sandboxId)).toEqual([])
  })

  test('the first call to a new host fails with disk_full', async () => {
    fill()
    await expect(sshd.provider({ root: path.join(disk(), 'other') }).create()).rejects.toMatchObject({
      code: 'disk_full',
    })
  })
})

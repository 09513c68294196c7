import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { removeSeal, sweepLocks, withLock } from './lock.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-lock-'))
afterAll(() => rmSync(folder, { recursive: true }))
const links = () => readdirSync(folder).filter((name) => name.startsWith('lock.'))

/** Another process that takes a lock with its own link, and prints when it holds it. */
async function other(file: string, then: string) {
  const script = `
    import { withLock } from ${JSON.stringify(new URL('./lock.ts', import.meta.url).href)}
    await withLock(${JSON.stringify(file)}, async () => { console.log('held'); ${then} }, ${JSON.stringify(folder)})`
  const child = spawn(
    process.execPath,
    ['--conditions=sandkasten-source', '--input-type=module', '-e', script],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  await once(child.stdout, 'data')
  return child
}

describe.runIf(process.platform !== 'win32')('locks that are hard links to one symlink', () => {
  it('need no inode of their own, and name their owner', async () => {
    const [one, two] = ['one', 'two'].map((name) => path.join(folder, name)) as [string, string]
    await withLock(
      one,
      () =>
        withLock(
          two,
          async () => {
            expect(lstatSync(one).ino).toBe(lstatSync(two).ino)
            expect(JSON.parse(readlinkSync(one)).pid).toBe(process.pid)
          },
          folder,
        ),
      folder,
    )
    expect(readdirSync(folder)).toEqual(links())
    expect(links()).toHaveLength(1)
  })

  it('exclude another process, whose symlink is removed when it exits', async () => {
    const file = path.join(folder, 'held')
    const child = await other(
      file,
      `await new Promise((resolve) => process.stdin.once('data', resolve)); process.stdin.destroy()`,
    )
    expect(links()).toHaveLength(2)
    let mine = false
    const take = async () => {
      mine = true
    }
    const waiting = withLock(file, take, folder)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(mine).toBe(false)
    child.stdin.write('go')
    await Promise.all([waiting, once(child, 'exit')])
    expect(links()).toHaveLength(1)
  })

  it('of a killed process are taken over, and its symlink is swept', async () => {
    const file = path.join(folder, 'left')
    const child = await other(file, 'await new Promise((resolve) => setTimeout(resolve, 1e6))')
    child.kill('SIGKILL')
    await once(child, 'exit')
    await withLock(file, async () => {}, folder)
    expect(links()).toHaveLength(2)
    await sweepLocks(folder)
    expect(links()).toHaveLength(1)
  })

  it('work after the symlink was removed, and when the folder is on another disk', async () => {
    for (const name of links()) rmSync(path.join(folder, name))
    const file = path.join(folder, 'again')
    await withLock(file, async () => expect(JSON.parse(readlinkSync(file)).pid).toBe(process.pid), folder)
    await withLock(file, async () => expect(lstatSync(file).nlink).toBe(2), folder)
    await withLock(file, async () => expect(lstatSync(file).nlink).toBe(1), '/dev/shm')
    rmSync(path.join('/dev/shm', readdirSync('/dev/shm').find((name) => /^lock\.[a-z2-7]{8}$/.test(name))!))
  })

  it('leave nothing behind after the symlink was removed on purpose, and a held lock stays', async () => {
    const file = path.join(folder, 'sealed')
    await withLock(
      file,
      async () => {
        removeSeal(folder)
        expect(links()).toEqual([])
        expect(JSON.parse(readlinkSync(file)).pid).toBe(process.pid)
        await withLock(path.join(folder, 'next'), async () => {}, folder)
        expect(links()).toHaveLength(1)
      },
      folder,
    )
    removeSeal(folder)
    removeSeal(folder)
    expect(readdirSync(folder)).toEqual([])
    await withLock(file, async () => {}, folder)
  })

  it('fail in a folder that is gone, and leave nothing behind', async () => {
    const gone = path.join(folder, 'gone')
    mkdirSync(gone)
    rmSync(gone, { recursive: true })
    for (let count = 0; count < 3; count += 1)
      await expect(withLock(path.join(gone, 'lock'), async () => {}, folder)).rejects.toMatchObject({
        code: 'file_not_found',
      })
    expect(links()).toHaveLength(1)
  })
})

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OciIsolator } from '../isolator.ts'
import { hasProgram } from '../launch/find-program.ts'
import { collectDiskTemplates, diskTemplateFor } from './limited-disk.ts'

const MiB = 1024 * 1024
const HOUR = 60 * 60 * 1000

let folder: string
beforeEach((ctx) => {
  ctx.skip(!hasProgram('mkfs.ext4'), 'needs mkfs.ext4: apt-get install e2fsprogs')
  folder = mkdtempSync(join(tmpdir(), 'skt-templates-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const age = (file: string, ms: number) => {
  const at = new Date(Date.now() - ms)
  utimesSync(file, at, at)
}

describe('templates of disks with a limit', () => {
  it('are created once per size and use almost no disk space', async () => {
    const template = await diskTemplateFor(64 * MiB, folder)
    const { ino, size, blocks } = statSync(template)
    expect(size).toBe(64 * MiB)
    expect(blocks * 512).toBeLessThan(2 * MiB)
    expect(statSync(await diskTemplateFor(64 * MiB, folder)).ino).toBe(ino)
  })

  it('are removed after an hour without use, together with drafts of killed processes', async () => {
    const [old, used] = [await diskTemplateFor(16 * MiB, folder), await diskTemplateFor(32 * MiB, folder)]
    const draft = join(folder, `disk-${16 * MiB}.ext4.0123456789ab`)
    const other = join(folder, 'host-0123456789abcdef')
    for (const file of [draft, other]) writeFileSync(file, '')
    for (const file of [old, used, draft, other]) age(file, 2 * HOUR)
    await diskTemplateFor(32 * MiB, folder)
    collectDiskTemplates(folder)
    expect([old, draft].filter(existsSync)).toEqual([])
    expect([used, other].filter(existsSync)).toEqual([used, other])
    expect(collectDiskTemplates(join(folder, 'none'))).toEqual([])
  })

  it('are removed by a sweep even if no other size is requested', async () => {
    const imagesFolder = join(folder, 'images')
    const old = await diskTemplateFor(16 * MiB, imagesFolder)
    age(old, 2 * HOUR)
    const ids = { folder: join(folder, 'ids') }
    const isolator = new OciIsolator({
      runner: '/bin/true',
      runFolder: join(folder, 'run'),
      imagesFolder,
      ids,
    })
    await isolator.sweep(join(folder, 'sandboxes')).finally(() => isolator.close())
    expect(existsSync(old)).toBe(false)
  })

  it('are collected without error if the image folder does not exist yet', () => {
    expect(collectDiskTemplates(join(folder, 'none'))).toEqual([])
  })

  it('are limited in number, whichever sizes callers choose', async () => {
    for (let index = 0; index < 100; index++) {
      const file = join(folder, `disk-${index + 1}.ext4`)
      writeFileSync(file, '')
      age(file, 2 * 60 * 1000)
    }
    const newest = await diskTemplateFor(8 * MiB, folder)
    expect(existsSync(newest)).toBe(true)
    expect(readdirSync(folder)).toHaveLength(32)
  })
})

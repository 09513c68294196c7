import { execFileSync } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Place, temporaryPlace } from './place.ts'

const missing =
  process.platform === 'linux' && process.getuid?.() === 0 ? undefined : 'mounting a small disk needs root'

describe.skipIf(missing)(
  `sandkasten sandbox on a full disk${missing ? ` (skipped: ${missing})` : ''}`,
  () => {
    let place: Place
    let disk: string
    beforeEach(async () => {
      place = await temporaryPlace()
      disk = place.env.SANDKASTEN_HOME!
      await mkdir(disk)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'sk-full', disk])
    })
    afterEach(async () => {
      await rm(path.join(disk, 'filler'), { force: true })
      await place.run(['destroy', 'demo', '--yes'])
      execFileSync('umount', ['--lazy', disk])
      await place.close()
    })

    it('lists, runs and destroys sandboxes, so that the user can free space', async () => {
      await place.ok(['create', 'demo', '--provider', 'local', '--yes'])
      await writeFile(path.join(disk, 'filler'), Buffer.alloc(17_000_000)).catch(() => {})
      expect(await place.json(['list'])).toMatchObject([{ name: 'demo', status: 'running' }])
      expect(await place.ok(['exec', 'demo', '--', 'echo', 'hello'])).toBe('hello')
      expect(await place.ok(['destroy', 'demo', '--yes'])).toBe('demo destroyed')
      expect(await place.json(['list'])).toEqual([])
    })
  },
)

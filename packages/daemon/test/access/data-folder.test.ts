import { chown, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configOf } from '../../src/config/index.ts'
import { startDaemon } from '../../src/daemon.ts'

let base: string
let data_dir: string
beforeEach(async () => {
  base = await mkdtemp(path.join(tmpdir(), 'sk-data-'))
  data_dir = path.join(base, 'data')
})
afterEach(() => rm(base, { recursive: true, force: true }))

const warnings: string[] = []
const quiet = () => {}
const log = {
  debug: quiet,
  info: quiet,
  error: quiet,
  warn: (_: object, message: string) => void warnings.push(message),
}
const start = () =>
  startDaemon({ config: configOf({ listen: '127.0.0.1:0', data_dir, isolator: 'process' }), log })
const modeOf = async (file: string) => (await stat(file)).mode & 0o7777

describe('the data folder', () => {
  it('and its files are accessible to their owner only', async () => {
    const umask = process.umask(0)
    try {
      const daemon = await start()
      expect(await modeOf(data_dir)).toBe(0o700)
      for (const file of [
        'sandkasten.db',
        'sandkasten.db-wal',
        'sandkasten.db-shm',
        'cli-key',
        'address',
        'instance',
      ])
        expect(await modeOf(path.join(data_dir, file)), file).toBe(0o600)
      await daemon.close()
    } finally {
      process.umask(umask)
    }
  })

  it('with open permissions is restricted, with a warning in the log', async () => {
    await mkdir(data_dir, { mode: 0o755 })
    warnings.length = 0
    const daemon = await start()
    expect(await modeOf(data_dir)).toBe(0o700)
    expect(warnings.join()).toMatch(/data folder/)
    await daemon.close()
  })

  const isRoot = process.getuid?.() === 0
  it.skipIf(!isRoot)(`of another account is refused${isRoot ? '' : ' (skipped: needs root)'}`, async () => {
    await mkdir(data_dir, { mode: 0o700 })
    await chown(data_dir, 12_345, 12_345)
    await expect(start()).rejects.toMatchObject({ code: 'permission_denied', message: /uid 12345/ })
  })
})

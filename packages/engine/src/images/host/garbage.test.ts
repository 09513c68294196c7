import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../../provider/engine-provider.ts'
import { collectHostImages } from './garbage.ts'
import { hostImage } from './host.ts'

const skipped = await reasonToSkip()
let folder: string
beforeEach(({ skip }) => {
  if (skipped) skip(skipped)
  folder = mkdtempSync(join(tmpdir(), 'sandkasten-host-'))
})
afterEach(() => {
  if (folder) rmSync(folder, { recursive: true, force: true })
})

/** Sets the age of a skeleton in hours. */
const age = (path: string, hours: number) => {
  const then = new Date(Date.now() - hours * 60 * 60 * 1000)
  utimesSync(path, then, then)
}

it('removes outdated skeletons; keeps new, current and unfinished ones', () => {
  const host = join(folder, 'host')
  const images = join(folder, 'images')
  for (const name of ['usr/bin', 'etc']) mkdirSync(join(host, name), { recursive: true })
  writeFileSync(join(host, 'etc/os-release'), 'one')
  const old = hostImage(images, host).layer
  writeFileSync(join(host, 'etc/os-release'), 'another')
  const current = hostImage(images, host).layer
  expect(current).not.toBe(old)
  age(old, 5)
  // It became current just now, so a sandbox may be starting with the old one.
  expect(collectHostImages(images, host)).toEqual([])
  age(current, 2)
  const draft = `${current}.0123456789ab`
  mkdirSync(draft)
  expect(collectHostImages(images, host)).toHaveLength(1)
  expect([existsSync(old), existsSync(current), existsSync(draft)]).toEqual([false, true, true])
  age(draft, 2)
  expect(collectHostImages(images, host)).toHaveLength(1)
  expect(readdirSync(images)).toHaveLength(1)
})

it('keeps the skeleton of a running sandbox until its end', async () => {
  const images = join(folder, 'images')
  await using provider = new EngineProvider({ isolator: 'oci', root: folder })
  const sandbox = await provider.create()
  try {
    const { layer } = hostImage(images)
    // The machine's files changed long ago.
    const host = join(folder, 'host')
    for (const name of ['usr', 'etc']) mkdirSync(join(host, name), { recursive: true })
    const later = hostImage(images, host).layer
    for (const path of [layer, later]) age(path, 3)
    expect(collectHostImages(images, host)).toEqual([])
    expect((await sandbox.runCommand({ cmd: 'head', args: ['-1', '/etc/passwd'] })).stdout).toContain('root')
    await sandbox.stop()
    expect(collectHostImages(images, host)).toHaveLength(1)
    expect(existsSync(layer)).toBe(false)
    await sandbox.start()
    expect((await sandbox.runCommand({ cmd: 'head', args: ['-1', '/etc/passwd'] })).stdout).toContain('root')
    // A sweep removes outdated skeletons too.
    age(hostImage(images).layer, 3)
    await provider.sweep()
    expect(existsSync(later)).toBe(false)
  } finally {
    await sandbox.destroy()
  }
})

import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip, reasonToSkipAnyone, type TestStore, testStore, writeLayout } from '../testing/image.ts'
import { file, folder, symlink, type TarEntry, tar } from '../testing/tar.ts'

let bench: TestStore

beforeEach(async ({ skip }) => {
  if (reasonToSkipAnyone) skip(reasonToSkipAnyone)
  bench = await testStore()
})
afterEach(() => bench?.[Symbol.dispose]())

/** Imports an image with one layer of these entries and returns the layer's folder. */
async function layerOf(entries: readonly TarEntry[]): Promise<string> {
  const { path } = writeLayout(join(bench.folder, 'layout'), { layers: [tar(entries)] })
  await bench.store.import(path, { name: 'tiny' })
  return bench.store.imageLayers('tiny').layers[1]!
}

function facts(path: string): Record<string, unknown> {
  const stats = lstatSync(path)
  return { mode: (stats.mode & 0o7777).toString(8), uid: stats.uid, gid: stats.gid, mtime: stats.mtimeMs }
}

describe('unpacking preserves a layer', () => {
  it('owners, modes, times, links, devices, pipes, long names', async ({ skip }) => {
    if (reasonToSkip) skip('needs root to see the ids of files')
    const long = `${'deep/'.repeat(30)}file`
    const layer = await layerOf([
      folder('.', { mode: 0o711, uid: 1, gid: 2 }),
      folder('bin', { mode: 0o1777, mtime: 1_000_000_000 }),
      file('bin/su', 'program', { mode: 0o4755, uid: 0, gid: 5, mtime: 1_234_567_890 }),
      file('bin/twin', '', { kind: '1', link: 'bin/su' }),
      file('fine', 'x', { uid: 1000, gid: 65535, pax: { mtime: '1500000000.25' } }),
      file('stranger', 'x', { uid: 70000, gid: 2_000_000 }),
      symlink('bin/link', '/no/where'),
      { name: 'null', kind: '3', device: [1, 3], mode: 0o666, uid: 3, gid: 4 },
      { name: 'disk', kind: '4', device: [259, 300], mode: 0o660 },
      { name: 'pipe', kind: '6', mode: 0o620, uid: 9, gid: 9 },
      file('short', 'long name', { pax: { path: long } }),
    ])
    expect(facts(layer)).toMatchObject({ mode: '711', uid: 1, gid: 2 })
    expect(facts(join(layer, 'bin'))).toMatchObject({ mode: '1777', mtime: 1e12 })
    expect(facts(join(layer, 'bin/su'))).toEqual({ mode: '4755', uid: 0, gid: 5, mtime: 1_234_567_890_000 })
    expect(lstatSync(join(layer, 'bin/twin')).ino).toBe(lstatSync(join(layer, 'bin/su')).ino)
    expect(facts(join(layer, 'fine'))).toMatchObject({ uid: 1000, gid: 65535, mtime: 1_500_000_000_250 })
    expect(facts(join(layer, 'stranger'))).toMatchObject({ uid: 65534, gid: 65534 })
    expect(readlinkSync(join(layer, 'bin/link'))).toBe('/no/where')
    const device = lstatSync(join(layer, 'null'))
    expect([device.isCharacterDevice(), device.rdev]).toEqual([true, 0x103])
    expect(facts(join(layer, 'null'))).toMatchObject({ mode: '666', uid: 3, gid: 4 })
    expect(lstatSync(join(layer, 'disk')).isBlockDevice()).toBe(true)
    expect(lstatSync(join(layer, 'pipe')).isFIFO()).toBe(true)
    expect(readFileSync(join(layer, long), 'utf8')).toBe('long name')
  })

  it('whiteouts, in any order', async () => {
    const layer = await layerOf([
      file('.wh.gone'),
      file('dir/.wh.gone'),
      folder('opaque'),
      file('opaque/.wh..wh..opq'),
      file('opaque/new', 'new'),
      file('.wh.first'),
      file('first/child', 'x'),
      folder('second'),
      file('second/child', 'x'),
      file('.wh.second'),
      file('kept', 'x'),
      file('.wh.kept'),
      file('.wh..wh.aufs'),
    ])
    const isWhiteout = (name: string) => {
      const stats = lstatSync(join(layer, name))
      return stats.isCharacterDevice() && stats.rdev === 0
    }
    expect(readdirSync(layer).sort()).toEqual(['dir', 'first', 'gone', 'kept', 'opaque', 'second'])
    expect(['gone', 'dir/gone', 'kept', 'first'].map(isWhiteout)).toEqual([true, true, false, false])
    expect(readdirSync(join(layer, 'opaque'))).toEqual(['new'])
    const { opaque } = JSON.parse(readFileSync(join(layer, '../layer.json'), 'utf8'))
    expect(opaque.sort()).toEqual(['first', 'opaque', 'second'])
  })

  it('a layer that hides all layers below it', async () => {
    const layers = [
      tar([folder('etc'), file('etc/passwd', 'ann:x:1000:1000::/home/ann:/bin/sh\n')]),
      tar([file('.wh..wh..opq')]),
    ]
    const { path } = writeLayout(join(bench.folder, 'layout'), { layers })
    await bench.store.import(path, { name: 'tiny' })
    const { layers: folders } = bench.store.imageLayers('tiny')
    expect(folders).toHaveLength(2)
    expect(readFileSync(join(folders[0]!, 'etc/passwd'), 'utf8')).not.toContain('ann')
  })
})

describe('a hostile layer', () => {
  const outside = () => join(bench.folder, 'outside')
  const attacks: Array<[string, () => TarEntry[]]> = [
    ['an absolute name', () => [file(`${outside()}/x`, 'x')]],
    ['a name with ..', () => [file('../../../outside/x', 'x')]],
    ['a hard link to outside', () => [file('x', '', { kind: '1', link: `${outside()}/secret` })]],
    ['a hard link with ..', () => [file('x', '', { kind: '1', link: '../../../outside/secret' })]],
    ['a whiteout with ..', () => [file('.wh...')]],
    ['a folder in place of a file in place of a folder', () => [folder('a'), file('a/b'), file('a')]],
    ['an unknown kind', () => [file('x', 'x', { kind: 'Z' })]],
    ['a sparse file', () => [file('x', 'x', { pax: { 'GNU.sparse.major': '1' } })]],
    ['a hard link to a missing file', () => [file('x', '', { kind: '1', link: 'y' })]],
    ['a name that is too long', () => [file('x', 'x', { pax: { path: 'a'.repeat(300) } })]],
    ['a wrong size', () => [file('x', 'x', { pax: { size: '999999999' } })]],
    ['an invalid size', () => [file('x', 'x', { pax: { size: 'many' } })]],
  ]
  it.each(attacks)('%s is rejected, and nothing is left behind', async (_, entries) => {
    mkdirSync(outside())
    writeFileSync(join(outside(), 'secret'), 'secret')
    await expect(layerOf(entries())).rejects.toMatchObject({ name: 'SandboxError' })
    expect(readdirSync(outside())).toEqual(['secret'])
    expect(lstatSync(join(outside(), 'secret')).nlink).toBe(1)
    for (const name of ['layers', 'refs', 'drafts'])
      expect(readdirSync(join(bench.images, name)), name).toEqual([])
  })

  it('links resolve inside the image and never outside', async () => {
    mkdirSync(outside())
    const layer = await layerOf([
      folder('real'),
      symlink('absolute', '/real'),
      file('absolute/one', '1'),
      symlink('climbing', '../../../../../../real'),
      file('climbing/two', '2'),
      folder('etc'),
      symlink('evil', outside()),
      symlink('etc/passwd', '/etc/shadow'),
      file('etc/passwd', 'a file, not through the link'),
    ])
    expect(readdirSync(join(layer, 'real')).sort()).toEqual(['one', 'two'])
    expect(lstatSync(join(layer, 'etc/passwd')).isFile()).toBe(true)
    expect(existsSync(join(layer, 'etc/shadow'))).toBe(false)
    // Following the link on this machine would lead to a file outside.
    await expect(layerOf([symlink('evil', outside()), file('evil/x', 'x')])).rejects.toMatchObject({
      name: 'SandboxError',
    })
    expect(readdirSync(outside())).toEqual([])
  })

  it('links in place of workdir, passwd and home are not followed on this machine', async () => {
    mkdirSync(outside())
    const { path } = writeLayout(join(bench.folder, 'layout'), {
      layers: [tar([symlink('home', outside()), symlink('etc', outside()), symlink('app', outside())])],
      config: { WorkingDir: '/app/here' },
    })
    await bench.store.import(path, { name: 'tiny' })
    expect(readdirSync(outside())).toEqual([])
    const loop = writeLayout(join(bench.folder, 'loop'), {
      layers: [tar([symlink('a', 'b'), symlink('b', 'a')])],
      config: { WorkingDir: '/a/c' },
    })
    await expect(bench.store.import(loop.path, { name: 'loop' })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it('too many entries or bytes stop the import', async () => {
    const many = tar(Array.from({ length: 50 }, (_, index) => file(`f${index}`)))
    const { path } = writeLayout(join(bench.folder, 'many'), { layers: [many] })
    for (const limits of [{ maxEntries: 49 }, { maxBytes: 20_000 }]) {
      await expect(bench.another({ limits }).import(path, { name: 'many' })).rejects.toMatchObject({
        message: expect.stringContaining('exceeds the limit'),
      })
    }
    expect(await bench.another({ limits: { maxEntries: 50 } }).import(path, { name: 'many' })).toBeDefined()
  })

  it('the archive around an image cannot reach files outside its folder', async () => {
    mkdirSync(outside())
    const archive = join(bench.folder, 'archive.tar')
    writeFileSync(archive, tar([symlink('x', outside()), file('x/y', 'y'), file('manifest.json', '[]')]))
    await expect(bench.store.import(archive)).rejects.toMatchObject({ name: 'SandboxError' })
    writeFileSync(archive, tar([symlink('manifest.json', '/etc/passwd')]))
    await expect(bench.store.import(archive)).rejects.toMatchObject({ name: 'SandboxError' })
    writeFileSync(archive, tar([file('manifest.json', 'no JSON')]))
    await expect(bench.store.import(archive)).rejects.toMatchObject({ name: 'SandboxError' })
    expect(readdirSync(outside())).toEqual([])
  })
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  digestOf,
  dockerArchive,
  gzip,
  layoutFiles,
  reasonToSkip,
  type TestStore,
  testStore,
  writeLayout,
} from './testing/image.ts'
import { file, folder, symlink, tar } from './testing/tar.ts'

let bench: TestStore

beforeEach(async ({ skip }) => {
  if (reasonToSkip) skip(reasonToSkip)
  bench = await testStore()
})
afterEach(() => bench?.[Symbol.dispose]())

const lower = tar([folder('etc'), file('etc/name', 'lower'), file('both', 'x'.repeat(1000))])
const upper = tar([folder('etc'), file('etc/name', 'upper')])

/** Everything in the store except its permanent folders. */
function contents(): string[] {
  return ['layers', 'refs', 'drafts', 'trash']
    .filter((name) => existsSync(join(bench.images, name)))
    .flatMap((name) => readdirSync(join(bench.images, name)).map((entry) => `${name}/${entry}`))
}

describe('import', () => {
  it.each([
    ['plain', undefined],
    ['gzip', gzip],
    ['zstd', (bytes: Buffer) => zstdCompressSync(bytes)],
  ])('an OCI layout with %s layers', async (_, compress) => {
    const { path, digest } = writeLayout(join(bench.folder, 'layout'), {
      layers: [lower, upper],
      compress,
      config: { Env: ['A=1=2', 'PATH=/bin', 'broken'], WorkingDir: '/srv/app', User: '7:8' },
    })
    const image = await bench.store.import(`oci:${path}`, { name: 'tiny' })
    expect(image).toMatchObject({
      name: 'tiny:latest',
      digest,
      size: 1010,
      created: '2024-05-06T07:08:09Z',
      config: { env: { A: '1=2', PATH: '/bin' }, workdir: '/srv/app', user: { uid: 7, gid: 8 } },
    })
    const { layers } = bench.store.imageLayers('tiny')
    expect(layers).toHaveLength(3)
    expect(layers.slice(1)).toEqual(
      [upper, lower].map((layer) => join(bench.images, 'layers', digestOf(layer).slice(7), 'fs')),
    )
    expect(readFileSync(join(layers[1]!, 'etc/name'), 'utf8')).toBe('upper')
    expect(contents().filter((name) => !name.startsWith('layers/'))).toHaveLength(1)
  })

  it('imports an archive of a layout and a docker save archive, and finds each by name, digest and path', async () => {
    const { files, digest } = layoutFiles({ layers: [lower, upper], name: 'team/tool:3' })
    const entries = Object.entries(files).map(([name, bytes]) => file(name, bytes))
    const archive = join(bench.folder, 'layout.tar')
    writeFileSync(archive, tar([folder('blobs'), folder('blobs/sha256'), ...entries]))
    writeFileSync(join(bench.folder, 'saved.tar.gz'), gzip(dockerArchive({ layers: [lower, upper] })))
    expect(await bench.store.import(archive)).toMatchObject({ name: 'team/tool:3', digest })
    const saved = await bench.store.import(`docker-archive:${join(bench.folder, 'saved.tar.gz')}`)
    expect(saved.name).toBe('saved:1')
    for (const name of ['team/tool:3', `team/tool@${digest}`, `oci:${archive}`])
      expect(bench.store.find(name), name).toMatchObject({ digest })
    expect(bench.store.find('team/tool')).toBeUndefined()
    // The same layers under another name are the same folders.
    const folders = ['team/tool:3', 'saved:1'].map((name) => bench.store.imageLayers(name).layers)
    expect(folders[0]).toEqual(folders[1])
    expect(readdirSync(join(bench.images, 'layers'))).toHaveLength(3)
  })

  it('imports the named tag of a layout with several images', async () => {
    const path = join(bench.folder, 'layout')
    const [one, two] = [
      writeLayout(path, { layers: [lower], name: 'one' }),
      writeLayout(path, { layers: [upper], name: 'two' }),
    ]
    const manifests = [one, two].map(({ digest }, index) => ({
      digest,
      annotations: { 'org.opencontainers.image.ref.name': ['one', 'two'][index] },
    }))
    writeFileSync(join(path, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
    expect(await bench.store.import(`oci:${path}:two`, { name: 'x' })).toMatchObject({ digest: two.digest })
    expect(await bench.store.import(`oci:${path}:one`)).toMatchObject({
      name: 'one:latest',
      digest: one.digest,
    })
    await expect(bench.store.import(`oci:${path}`)).rejects.toMatchObject({ hint: 'Available: one, two.' })
  })

  it('concurrent imports by several stores create one image', async () => {
    const { path } = writeLayout(join(bench.folder, 'layout'), { layers: [lower, upper], compress: gzip })
    const images = await Promise.all(
      Array.from({ length: 6 }, (_, index) => bench.another().import(path, { name: `tiny:${index % 2}` })),
    )
    expect(new Set(images.map(({ digest }) => digest)).size).toBe(1)
    expect(bench.store.list().map(({ name }) => name)).toEqual(['tiny:0', 'tiny:1'])
    expect(contents().filter((name) => !name.startsWith('refs/'))).toHaveLength(3)
  })

  it('gives the sandbox’s user a name, a home and a working folder if the image has none', async () => {
    const { path } = writeLayout(join(bench.folder, 'layout'), {
      layers: [
        tar([
          folder('etc'),
          file('etc/passwd', 'root:x:0:0::/root:/bin/sh\nann:x:500:50::/home/ann:/bin/sh'),
          folder('srv', { mode: 0o711, uid: 3, gid: 4 }),
          folder('srv/deep', { mode: 0o2750, uid: 5, gid: 6 }),
          symlink('app', '/srv/deep'),
        ]),
      ],
      config: { WorkingDir: '/app/work' },
    })
    const { config } = await bench.store.import(path, { name: 'tiny' })
    expect(config).toMatchObject({ workdir: '/srv/deep/work', user: { uid: 1000, gid: 1000 } })
    const top = bench.store.imageLayers('tiny').layers[0]!
    expect(readFileSync(join(top, 'etc/passwd'), 'utf8')).toBe(
      'root:x:0:0::/root:/bin/sh\nann:x:500:50::/home/ann:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n',
    )
    const facts = (name: string) => {
      const { mode, uid, gid } = lstatSync(join(top, name))
      return [(mode & 0o7777).toString(8), uid, gid]
    }
    expect(facts('srv')).toEqual(['711', 3, 4])
    expect(facts('srv/deep')).toEqual(['2750', 5, 6])
    expect(facts('srv/deep/work')).toEqual(['755', 1000, 1000])
    expect(facts('home/sandbox')).toEqual(['755', 1000, 1000])
    expect(existsSync(join(top, 'app'))).toBe(false)
  })

  it('uses the image’s own user by name, and rejects an unknown user', async () => {
    const passwd = tar([folder('etc'), file('etc/passwd', 'ann:x:500:50::/home/ann:/bin/sh\n')])
    for (const [user, expected] of [
      ['ann', { uid: 500, gid: 50 }],
      ['500:7', { uid: 500, gid: 7 }],
      ['root', undefined],
      ['0', { uid: 1000, gid: 1000 }],
      ['bob', undefined],
      ['70000', undefined],
    ] as const) {
      const { path } = writeLayout(join(bench.folder, user), { layers: [passwd], config: { User: user } })
      const result = bench.store.import(path, { name: 'tiny' })
      if (expected) expect((await result).config.user).toEqual(expected)
      else
        await expect(result).rejects.toMatchObject({
          code: 'invalid_argument',
          message: expect.stringContaining(user),
        })
    }
  })
})

describe('broken images', () => {
  const bad: Array<[string, (path: string) => void, RegExp]> = [
    ['a changed layer', (path) => swap(path, upper, tar([file('other', 'x')])), /should be sha256/],
    ['a truncated layer', (path) => swap(path, upper, upper.subarray(0, 700)), /truncated/],
    ['a missing layer file', (path) => rmSync(blobOf(path, upper)), /missing/],
    [
      'a layer file that links outside',
      (path) => {
        rmSync(blobOf(path, upper))
        writeFileSync(join(path, '../outside.tar'), upper)
        symlinkSync(join(path, '../outside.tar'), blobOf(path, upper))
      },
      /missing/,
    ],
    ['an index that is not JSON', (path) => writeFileSync(join(path, 'index.json'), '{'), /not JSON/],
    [
      'an index without images',
      (path) => writeFileSync(join(path, 'index.json'), '{"schemaVersion":2,"manifests":[]}'),
      /None of its 0/,
    ],
  ]
  it.each(bad)('%s: a clear error, and nothing is stored', async (_, spoil, message) => {
    const { path } = writeLayout(join(bench.folder, 'layout'), { layers: [lower, upper] })
    spoil(path)
    await expect(bench.store.import(path, { name: 'tiny' })).rejects.toMatchObject({
      name: 'SandboxError',
      message: expect.stringMatching(message),
    })
    expect(bench.store.list()).toEqual([])
    expect(contents()).toEqual([])
  })

  it.each([
    [
      'a layer with another diff_id',
      {
        layers: [lower],
        change: ({ config }) => {
          config.rootfs = { diff_ids: [digestOf('x')] }
        },
      },
      /should be sha256/,
    ],
    [
      'another number of layers',
      {
        layers: [lower],
        change: ({ config }) => {
          config.rootfs = { diff_ids: [] }
        },
      },
      /not those/,
    ],
    [
      'another processor',
      {
        layers: [lower],
        change: ({ config }) => {
          config.architecture = 'vax'
        },
      },
      /vax/,
    ],
    [
      'compressed nonsense',
      { layers: [lower], compress: () => Buffer.from('1f8b0800ffffffffffffffff', 'hex') },
      /cannot decompress/,
    ],
  ] as Array<[string, Parameters<typeof writeLayout>[1], RegExp]>)('%s', async (_, parts, message) => {
    const { path } = writeLayout(join(bench.folder, 'layout'), parts)
    await expect(bench.store.import(path, { name: 'tiny' })).rejects.toMatchObject({
      message: expect.stringMatching(message),
    })
    expect(contents()).toEqual([])
  })

  it('a missing layer: the hint of the error repairs the image', async () => {
    const { path } = writeLayout(join(bench.folder, 'layout'), { layers: [lower, upper] })
    await bench.store.import(path, { name: 'tiny' })
    const [, gone] = bench.store.imageLayers('tiny').layers
    renameSync(dirname(gone!), join(bench.folder, 'elsewhere'))
    expect(() => bench.store.imageLayers('tiny')).toThrow(
      expect.objectContaining({
        code: 'unavailable',
        hint: expect.stringContaining('image remove tiny:latest'),
      }),
    )
    await bench.store.remove('tiny')
    expect(contents()).toEqual([])
    await bench.store.import(path, { name: 'tiny' })
    expect(bench.store.imageLayers('tiny').layers[1]).toBe(gone)
    rmSync(gone!, { recursive: true })
    // Importing again also works without removing the image first.
    await bench.store.import(path, { name: 'tiny' })
    expect(readFileSync(join(gone!, 'etc/name'), 'utf8')).toBe('upper')
  })

  it('a missing image: the error contains the command that gets it', () => {
    expect(() => bench.store.imageLayers('python:3.12')).toThrow(
      expect.objectContaining({
        code: 'not_found',
        hint: expect.stringMatching(/^Run: sandkasten image pull python:3\.12\. /),
      }),
    )
    expect(() => bench.store.imageLayers('No Such Name')).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
  })
})

describe('garbage', () => {
  const sandbox = (id: string, layers: readonly string[]) => {
    mkdirSync(join(bench.root, 'sandboxes', id), { recursive: true })
    writeFileSync(
      join(bench.root, 'sandboxes', id, 'sandbox.json'),
      JSON.stringify({ extra: { image: { layers } } }),
    )
  }

  it('removes unused layers and keeps those of other images and sandboxes', async () => {
    const one = writeLayout(join(bench.folder, 'one'), { layers: [lower, upper] })
    const two = writeLayout(join(bench.folder, 'two'), { layers: [lower] })
    await bench.store.import(one.path, { name: 'one' })
    await bench.store.import(two.path, { name: 'two' })
    const { layers } = bench.store.imageLayers('one')
    sandbox('used', layers)
    expect(await bench.store.remove('one')).toMatchObject({ layers: 0, kept: true })
    expect(layers.every((layer) => existsSync(layer))).toBe(true)
    rmSync(join(bench.root, 'sandboxes/used'), { recursive: true })
    mkdirSync(join(bench.root, 'snapshots'))
    writeFileSync(join(bench.root, 'snapshots/kept.json'), JSON.stringify({ image: { layers } }))
    expect(await bench.store.prune()).toMatchObject({ layers: 0 })
    rmSync(join(bench.root, 'snapshots/kept.json'))
    // Removes the upper and the top layer. The other image uses the lower layer.
    expect(await bench.store.prune()).toMatchObject({ layers: 2, bytes: 5 })
    expect(bench.store.imageLayers('two').layers.every((layer) => existsSync(layer))).toBe(true)
    expect(await bench.store.prune({ unused: true })).toMatchObject({ layers: 2, images: ['two:latest'] })
    expect(contents()).toEqual([])
  })

  it('puts back a layer that came into use during removal, also after the collector was killed', async () => {
    const { path } = writeLayout(join(bench.folder, 'one'), { layers: [lower] })
    await bench.store.import(path, { name: 'one' })
    const { layers } = bench.store.imageLayers('one')
    const key = layers[1]!.split('/').at(-2)!
    rmSync(join(bench.images, 'refs'), { recursive: true })
    renameSync(join(bench.images, 'layers', key), join(bench.images, 'trash', `${key}.killed`))
    sandbox('late', layers)
    await bench.store.prune()
    expect(layers.every((layer) => existsSync(layer))).toBe(true)
    expect(contents().filter((name) => name.startsWith('trash/'))).toEqual([])
  })

  it('removes nothing if a record cannot be read', async () => {
    const { path } = writeLayout(join(bench.folder, 'one'), { layers: [lower] })
    const { name } = await bench.store.import(path, { name: 'one' })
    writeFileSync(join(bench.images, 'refs', `${'0'.repeat(64)}.json`), '{ damaged')
    await expect(bench.store.prune()).rejects.toMatchObject({ code: 'internal' })
    rmSync(join(bench.images, 'refs', `${'0'.repeat(64)}.json`))
    expect(bench.store.imageLayers(name).layers.every((layer) => existsSync(layer))).toBe(true)
  })

  it('keeps drafts of living processes and removes those of killed ones', async () => {
    const { path } = writeLayout(join(bench.folder, 'one'), { layers: [lower, upper] })
    const script = `
      import { ImageStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)}
      const store = new ImageStore({ root: ${JSON.stringify(bench.root)}, runner: async () => {
        console.log('made its draft'); await new Promise((resolve) => setTimeout(resolve, 1e9)) } })
      await store.import(${JSON.stringify(path)}, { name: 'one' })`
    const child = spawn(
      process.execPath,
      ['--conditions=sandkasten-source', '--input-type=module', '-e', script],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    await once(child.stdout, 'data')
    expect(await bench.store.prune()).toMatchObject({ drafts: 0 })
    expect(contents()).toHaveLength(1)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await bench.store.prune()).toMatchObject({ drafts: 1 })
    expect(contents()).toEqual([])
  })
})

describe('a process that is killed at a random moment', () => {
  it('leaves only what the next process cleans up, and no image without its layers', async () => {
    const layers = [
      lower,
      upper,
      tar(Array.from({ length: 200 }, (_, index) => file(`f${index}`, 'x'.repeat(3000)))),
    ]
    const one = writeLayout(join(bench.folder, 'one'), { layers, compress: gzip })
    const two = writeLayout(join(bench.folder, 'two'), { layers: layers.slice(1), compress: gzip })
    const script = `
      import { ImageStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)}
      const store = new ImageStore({ root: ${JSON.stringify(bench.root)}, runner: async () => ${JSON.stringify(bench.runner)}, volatile: true })
      console.log('ready')
      for (;;) {
        await store.import(${JSON.stringify(one.path)}, { name: 'one' })
        await store.import(${JSON.stringify(two.path)}, { name: 'two' })
        await store.remove('one')
        await store.remove('two')
      }`
    const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', script]
    for (let round = 0; round < 6; round += 1) {
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      await once(child.stdout, 'data')
      // The kill hits a random step.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 150))
      child.kill('SIGKILL')
      await once(child, 'exit')
      await bench.store.prune()
      const needed = new Set(bench.store.list().flatMap(({ layers }) => layers.map((key) => `layers/${key}`)))
      expect(
        contents()
          .filter((name) => name.startsWith('layers/'))
          .sort(),
      ).toEqual([...needed].sort())
      expect(contents().filter((name) => /^(drafts|trash)/.test(name))).toEqual([])
      for (const { name } of bench.store.list()) expect(bench.store.imageLayers(name).name).toBe(name)
    }
    expect(await bench.store.import(one.path, { name: 'one' })).toMatchObject({ digest: one.digest })
  })

  it('concurrent adds and removes never see a partial image', async () => {
    const { path } = writeLayout(join(bench.folder, 'one'), { layers: [lower, upper], compress: gzip })
    const worker = async (name: string) => {
      const store = bench.another()
      for (let round = 0; round < 8; round += 1) {
        await store.import(path, { name })
        expect(readFileSync(join(store.imageLayers(name).layers[1]!, 'etc/name'), 'utf8')).toBe('upper')
        await store.remove(name)
      }
    }
    await Promise.all(['a', 'b', 'c'].map(worker))
    expect(contents()).toEqual([])
  })
})

const blobOf = (path: string, layer: Buffer) => join(path, 'blobs/sha256', digestOf(layer).slice(7))
const swap = (path: string, layer: Buffer, content: Buffer) => writeFileSync(blobOf(path, layer), content)

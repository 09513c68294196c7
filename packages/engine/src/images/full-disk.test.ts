import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { reasonToSkip, type TestStore, testStore, writeLayout } from './testing/image.ts'
import { file, tar } from './testing/tar.ts'

let bench: TestStore

beforeEach(async ({ skip }) => {
  if (reasonToSkip) skip(reasonToSkip)
  bench = await testStore()
})
afterEach(() => bench?.[Symbol.dispose]())

/**
 * Imports an image in a process whose store is on a small disk. The disk is mounted in the process's own mount
 * namespace, so it ends with the process. Resolves to the error and the content of the store.
 */
async function importOnto(
  mount: string,
  path: string,
): Promise<{ code: string; hint: string; left: string[] }> {
  const script = `
    import { readdirSync } from 'node:fs'
    import { ImageStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)}
    const [root, path, runner] = process.argv.slice(1)
    const store = new ImageStore({ root, runner: async () => runner })
    const error = await store.import(path, { name: 'x' }).catch((error) => error)
    const left = readdirSync(root, { recursive: true }).filter((name) => !/^(images(\\/(layers|refs|drafts|trash))?)$/.test(name))
    console.log(JSON.stringify({ code: error.code, message: error.message, hint: error.hint, left }))`
  const node = [process.execPath, '--conditions=sandkasten-source', '--input-type=module', '-e', script]
  const shell = [
    'sh',
    '-c',
    `set -e; root=$1; shift; mkdir -p "$root"; ${mount}; exec "$@"`,
    'sh',
    bench.root,
  ]
  const args = ['--mount', ...shell, ...node, bench.root, path, bench.runner]
  return JSON.parse((await promisify(execFile)('unshare', args)).stdout)
}

const large = () => [tar([file('small', 'x')]), tar([file('large', Buffer.alloc(8 * 1024 * 1024, 1))])]
const many = () => [tar(Array.from({ length: 300 }, (_, index) => file(`file-${index}`, 'x')))]

it.each([
  ['a full disk', 'mount -t tmpfs -o size=4m none "$root"', large, 'disk_full', /space/],
  ['no inodes', 'mount -t tmpfs -o size=64m,nr_inodes=200 none "$root"', many, 'disk_full', /df -i/],
  [
    'a read-only data folder',
    'mount -t tmpfs none "$root"; mkdir -p "$root/images"; mount -o remount,ro "$root"',
    many,
    'permission_denied',
    /writable for this process/,
  ],
] as const)('%s: a clear error, and nothing is stored', async (_, mount, layers, code, hint) => {
  const { path } = writeLayout(join(bench.folder, 'layout'), { layers: layers() })
  const result = await importOnto(mount, path)
  expect(result).toMatchObject({ code, hint: expect.stringMatching(hint), left: [] })
})

it('with enough space the same images are imported', async () => {
  for (const [name, layers] of Object.entries({ large: large(), many: many() })) {
    const { path } = writeLayout(join(bench.folder, name), { layers })
    expect(await bench.store.import(path, { name })).toMatchObject({ name: `${name}:latest` })
  }
})

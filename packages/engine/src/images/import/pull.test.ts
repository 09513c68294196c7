import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isLoopback, parseReference } from '../reference.ts'
import { digestOf, gzip, reasonToSkip, type TestStore, testStore, writeLayout } from '../testing/image.ts'
import { file, tar } from '../testing/tar.ts'
import { findTool, type Registry, startRegistry } from '../testing/tools.ts'

const [program, skopeo] = [findTool('docker-registry'), findTool('skopeo')]
const skipped =
  reasonToSkip ??
  (program ? undefined : 'needs docker-registry: npm test fetches it on Debian') ??
  (skopeo ? undefined : 'needs skopeo: apt-get install skopeo')

const first = tar([file('one', '1')])
const second = tar([file('two', '2')])

let registry: Registry
let bench: TestStore

beforeAll(async () => {
  if (!skipped) registry = await startRegistry(program!)
})
afterAll(() => registry?.[Symbol.asyncDispose]())
beforeEach(async ({ skip }) => {
  if (skipped) skip(skipped)
  bench = await testStore()
})
afterEach(() => bench?.[Symbol.dispose]())

/** Pushes an image of these layers. Resolves to the digest of its manifest in the registry. */
async function push(
  name: string,
  layers: readonly Buffer[],
  options: readonly string[] = [],
): Promise<string> {
  const layout = join(bench.folder, `push-${Math.random()}`)
  writeLayout(layout, { layers, compress: gzip, name: 'x' })
  const digests = join(bench.folder, 'digest')
  const args = ['--insecure-policy', 'copy', '--quiet', '--dest-tls-verify=false', '--digestfile', digests]
  await promisify(execFile)(skopeo!, [
    ...args,
    ...options,
    `oci:${layout}:x`,
    `docker://${registry.host}/${name}`,
  ])
  return readFileSync(digests, 'utf8').trim()
}

const left = () => ['layers', 'refs', 'drafts'].flatMap((name) => readdirSync(join(bench.images, name)))

describe('pull', () => {
  it('gets an image with the registry’s digest, in the OCI and the Docker format', async () => {
    for (const format of ['oci', 'v2s2']) {
      const digest = await push(`team/tool:${format}`, [first, second], ['--format', format])
      const seen: string[] = []
      const name = `${registry.host}/team/tool:${format}`
      const image = await bench.store.pull(name, { onProgress: ({ phase }) => seen.push(phase) })
      expect(image).toMatchObject({ name, digest, changed: true, size: 2 })
      expect(bench.store.imageLayers(name).layers).toHaveLength(3)
      expect(seen).toContain('fetch')
    }
    // Both images have the same layers.
    expect(readdirSync(join(bench.images, 'layers'))).toHaveLength(3)
    expect(readdirSync(join(bench.images, 'drafts'))).toEqual([])
  })

  it('fetches nothing if the tag is unchanged, and detects a changed tag', async () => {
    const name = `${registry.host}/moving`
    const before = await push('moving', [first])
    expect(await bench.store.pull(name)).toMatchObject({ digest: before, changed: true })
    const onProgress = () => expect.unreachable('something was fetched')
    expect(await bench.store.pull(name, { onProgress })).toMatchObject({ digest: before, changed: false })
    const after = await push('moving', [first, second])
    expect(await bench.store.pull(name)).toMatchObject({ digest: after, changed: true })
    expect(bench.store.list()).toMatchObject([{ name: `${name}:latest`, digest: after }])
    // The layers of the old image, pulled by its digest, are still in the store.
    expect(await bench.store.pull(`${name}@${before}`)).toMatchObject({ pinned: before, digest: before })
    expect(bench.store.imageLayers(`${name}@${before}`).layers).toHaveLength(2)
  })

  it('pulls exactly the requested digest or fails', async () => {
    const digest = await push('pinned:1', [first])
    const name = `${registry.host}/pinned`
    expect(await bench.store.pull(`${name}@${digest}`)).toMatchObject({ pinned: digest, digest })
    await bench.store.remove(`${name}@${digest}`)
    await expect(bench.store.pull(`${name}@${digestOf('another')}`)).rejects.toMatchObject({
      code: 'provider_error',
      message: expect.stringContaining(name),
    })
    expect(left()).toEqual([])
  })

  it('adds nothing to the store if the registry sends wrong content', async () => {
    const layer = tar([file('precious', 'x')])
    await push('spoiled:1', [layer])
    const blob = digestOf(gzip(layer)).slice(7)
    const stored = join(registry.data, 'docker/registry/v2/blobs/sha256', blob.slice(0, 2), blob, 'data')
    const bytes = readFileSync(stored)
    bytes[bytes.length - 9]! ^= 1
    writeFileSync(stored, bytes)
    await expect(bench.store.pull(`${registry.host}/spoiled:1`)).rejects.toMatchObject({
      name: 'SandboxError',
    })
    expect(left()).toEqual([])
  })

  it('selects this machine’s platform; the requested digest may be that of the list', async () => {
    const parts = { compress: gzip, layers: [first] }
    const ours = writeLayout(join(bench.folder, 'all'), parts)
    const theirs = writeLayout(join(bench.folder, 'all'), {
      ...parts,
      layers: [second],
      change: ({ config }) => {
        config.architecture = 'vax'
      },
    })
    const manifest = ({ digest }: { digest: string }, architecture: string) => ({
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest,
      size: readFileSync(join(bench.folder, 'all/blobs/sha256', digest.slice(7))).length,
      platform: { os: 'linux', architecture },
    })
    const here = process.arch === 'x64' ? 'amd64' : process.arch
    const index = JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [manifest(theirs, 'vax'), manifest(ours, here)],
    })
    writeFileSync(join(bench.folder, 'all/blobs/sha256', digestOf(index).slice(7)), index)
    const outer = {
      digest: digestOf(index),
      size: index.length,
      mediaType: 'application/vnd.oci.image.index.v1+json',
    }
    writeFileSync(
      join(bench.folder, 'all/index.json'),
      JSON.stringify({ schemaVersion: 2, manifests: [outer] }),
    )
    expect(await bench.store.import(join(bench.folder, 'all'), { name: 'local' })).toMatchObject({
      digest: ours.digest,
    })
    const target = `${registry.host}/all:1`
    const args = ['--insecure-policy', 'copy', '--quiet', '--all', '--dest-tls-verify=false']
    await promisify(execFile)(skopeo!, [...args, `oci:${join(bench.folder, 'all')}`, `docker://${target}`])
    expect(await bench.store.pull(target)).toMatchObject({ digest: ours.digest })
    const pinned = `${registry.host}/all@${outer.digest}`
    expect(await bench.store.pull(pinned)).toMatchObject({ digest: ours.digest, pinned: outer.digest })
  })

  it('reads credentials from a file, reports missing ones, and never prints them', async () => {
    await using closed = await startRegistry(program!, {
      // The hash of the password “open sesame”.
      htpasswd: 'test:$2b$04$d.waACKnt63wWVuw.tZ0Ge.ispnPWLe/BWUwsWTOEPU9Lhc/Bi6o6\n',
    })
    const authfile = join(bench.folder, 'auth.json')
    const auth = Buffer.from('test:open sesame').toString('base64')
    writeFileSync(authfile, JSON.stringify({ auths: { [closed.host]: { auth } } }), { mode: 0o600 })
    const layout = writeLayout(join(bench.folder, 'private'), { layers: [first], name: 'x' })
    const args = [
      '--insecure-policy',
      'copy',
      '--quiet',
      '--dest-tls-verify=false',
      '--dest-authfile',
      authfile,
    ]
    await promisify(execFile)(skopeo!, [...args, `oci:${layout.path}:x`, `docker://${closed.host}/private:1`])
    const name = `${closed.host}/private:1`
    const failure = await bench.store.pull(name).catch((error) => error)
    expect(failure).toMatchObject({ code: 'provider_error', hint: expect.stringContaining('--authfile') })
    expect(await bench.store.pull(name, { authfile })).toMatchObject({ name })
    writeFileSync(authfile, JSON.stringify({ auths: { [closed.host]: { auth: `${auth}x` } } }))
    const wrong = await bench.store.pull(name, { authfile }).catch((error) => error)
    expect(wrong).toMatchObject({ code: 'provider_error' })
    expect(`${wrong.message} ${wrong.hint}`).not.toMatch(/sesame|dGVzd/)
  })

  it('without skopeo, the error says how to install it', async () => {
    const pulled = bench.store.pull('127.0.0.1:1/x', { skopeo: '/no/such/skopeo' })
    await expect(pulled).rejects.toMatchObject({ code: 'unavailable', hint: 'Run: apt-get install skopeo' })
  })
})

describe('archives of other programs', () => {
  it.each(['docker-archive', 'oci-archive'])('%s', async (kind) => {
    const layout = writeLayout(join(bench.folder, 'layout'), {
      layers: [first, second],
      compress: gzip,
      config: { Env: ['A=1'], WorkingDir: '/srv' },
      name: 'x',
    })
    const archive = join(bench.folder, `${kind}.tar`)
    const args = [
      '--insecure-policy',
      'copy',
      '--quiet',
      `oci:${layout.path}:x`,
      `${kind}:${archive}:saved:2`,
    ]
    await promisify(execFile)(skopeo!, args)
    const image = await bench.store.import(`${kind}:${archive}`)
    expect(image).toMatchObject({ size: 2, config: { env: { A: '1' }, workdir: '/srv' } })
    expect(image.name).toMatch(/saved:2$/)
    expect(bench.store.imageLayers(`${kind}:${archive}`).layers).toHaveLength(3)
  })
})

describe('references', () => {
  it.each([
    ['python', 'python:latest', undefined],
    ['python:3.12-slim', 'python:3.12-slim', undefined],
    ['team/tool', 'team/tool:latest', undefined],
    ['localhost/tool', 'localhost/tool:latest', 'localhost'],
    ['registry:5000/a/b_c:V1', 'registry:5000/a/b_c:V1', 'registry:5000'],
    ['r.example/x', 'r.example/x:latest', 'r.example'],
    [`x:1@sha256:${'a'.repeat(64)}`, `x@sha256:${'a'.repeat(64)}`, undefined],
    ['oci:/a/../b', 'oci:/b', undefined],
  ])('%s', (text, name, host) => {
    const found: { name: string; host?: string } = parseReference(text)
    expect([found.name, found.host]).toEqual([name, host])
  })

  it.each([
    '',
    '-x',
    'UPPER',
    'a//b',
    '../x',
    '/abs',
    'a:b:c',
    'x@sha256:12',
    'a b',
    '--authfile=/etc/x',
    'a\nb',
  ])('refuses %j', (text) => {
    expect(() => parseReference(text)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  it('http is allowed only for this machine’s loopback', () => {
    expect(['localhost', 'localhost:5000', '127.0.0.1:1', '127.9.9.9', '[::1]:5'].every(isLoopback)).toBe(
      true,
    )
    for (const host of [
      'localhost.example',
      '127.0.0.1.example',
      '10.0.0.1',
      '128.0.0.1',
      'my-localhost',
      '[::2]',
    ])
      expect(isLoopback(host), host).toBe(false)
  })
})

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Bench, createBench, reasonToSkip } from './testing/bench.ts'

const reason = await reasonToSkip()

let bench: Bench

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) bench = await createBench()
}, 600_000)
afterEach(async () => {
  await bench?.clear()
  expect(bench?.leftovers() ?? []).toEqual([])
})
afterAll(() => bench?.[Symbol.asyncDispose]())

describe('images and mounts', () => {
  it('a folder with a root file system', async () => {
    const rootfs = join(bench.folder, 'rootfs')
    for (const folder of ['bin', 'etc', 'proc', 'dev', 'tmp', 'run'])
      mkdirSync(join(rootfs, folder), { recursive: true })
    copyFileSync(bench.options.runner, join(rootfs, 'bin/tool'))
    chmodSync(join(rootfs, 'bin/tool'), 0o755)
    // A hostile image: following this link on the host would change its target.
    symlinkSync(join(bench.folder, 'outside'), join(rootfs, 'workspace'))
    mkdirSync(join(bench.folder, 'outside'))
    const box = await bench.start({ image: { rootfs } })
    const result = await box.client.run({ id: 'tool', argv: ['/bin/tool', 'version'], cwd: '/' })
    expect(result.stdout.toString()).toMatch(/^\d+\.\d+/)
    await box.client.files.write('/workspace/new', 'x')
    expect(existsSync(join(bench.folder, 'outside/new'))).toBe(false)
    await box.sandbox.kill()
    expect(existsSync(join(rootfs, 'workspace/new'))).toBe(false)
  })

  it('extra mounts exist and are read-only, also for the sandbox’s root', async () => {
    const source = join(bench.folder, 'shared')
    mkdirSync(source)
    writeFileSync(join(source, 'file'), 'content', { mode: 0o644 })
    const box = await bench.start({
      mounts: [
        { source, target: '/mnt/shared' },
        { source: join(source, 'file'), target: '/srv/one' },
      ],
    })
    expect((await box.sh('cat /mnt/shared/file /srv/one')).out).toBe('contentcontent')
    for (const user of ['1000', '0']) {
      const tries =
        'echo x > /mnt/shared/file; echo x > /srv/one; touch /mnt/shared/new; rm -f /mnt/shared/file; chmod 777 /mnt/shared'
      expect((await box.sh(tries, { user })).err.match(/Read-only file system/g)).toHaveLength(5)
    }
    expect(readFileSync(join(source, 'file'), 'utf8')).toBe('content')
  })

  it('an invalid spec is rejected before anything is created', async () => {
    for (const changes of [
      { sandboxId: '../up' },
      { workdir: 'relative' },
      { workdir: '/a/../b' },
      { workdir: '/proc/x' },
      { hostname: 'a b' },
      { mounts: [{ source: '/no/such', target: '/x' }] },
      { mounts: [{ source: '/usr', target: '/proc' }] },
      { env: { 'A=B': '' } },
      { limits: { memoryBytes: 1 } },
      { limits: { cpus: 0 } },
      { limits: { pids: Number.NaN } },
      { image: { rootfs: '/etc/passwd' } },
    ]) {
      await expect(bench.isolator.start(bench.spec(changes))).rejects.toSatisfy((error) =>
        SandboxError.is(error, 'invalid_argument'),
      )
    }
    expect(bench.leftovers()).toEqual([])
  })
})

describe('paths of the host', () => {
  it.each(['host', 'limited', 'rootfs'])(
    'are not visible in the sandbox’s mount tables: %s',
    async (kind) => {
      const rootfs = join(bench.folder, 'paths')
      if (kind === 'rootfs') {
        mkdirSync(join(rootfs, 'usr'), { recursive: true })
        for (const name of ['bin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(rootfs, name))
      }
      const box = await bench.start({
        ...(kind === 'rootfs' ? { image: { rootfs }, mounts: [{ source: '/usr', target: '/usr' }] } : {}),
        ...(kind === 'limited' ? { limits: { diskBytes: 64 * 1024 * 1024 } } : {}),
      })
      const files = ['mountinfo', 'mounts', 'mountstats'].map((name) => `/proc/self/${name}`)
      const { out } = await box.sh(`cat ${files.join(' ')} /proc/1/mountinfo 2>/dev/null; true`)
      expect(out).toContain('/run/sandkasten-runner')
      const places = [bench.folder, bench.options.runFolder!, bench.options.runner, process.cwd()]
      // Names that exist on every machine reveal nothing about this one.
      const names = new Set(places.flatMap((place) => place.split('/')).filter(Boolean))
      for (const common of ['tmp', 'run', 'var', 'home', 'runner', 'work']) names.delete(common)
      expect([...names].filter((name) => new RegExp(`[/:=]${name}([/:, ]|$)`, 'm').test(out))).toEqual([])
    },
  )
})

describe('network open', () => {
  it('its sysctl settings are read-only, also for root', async () => {
    const box = await bench.start({ network: 'open' })
    const { out, err } = await box.sh('echo 7 > /proc/sys/net/ipv4/ip_default_ttl; id -u', { user: '0' })
    expect(err).toContain('Read-only')
    expect(out).toBe('0')
  })
})

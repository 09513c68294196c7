import { readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { shareHostLayers } from '../images/testing/shared-host.ts'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { runnersOf } from './test-helper.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-root-user-'))
afterAll(() => rm(root, { recursive: true, force: true }))
await shareHostLayers(path.join(root, 'images'))
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root })

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-euc', script] })
  if (exitCode !== 0) throw new Error(`${script}: ${stdout}${stderr}`)
  return stdout.trim()
}

/** A package with one program, `tiny`, that says its version, and a script that makes an account. */
const build = (version: string) => `
  mkdir -p pkg/DEBIAN pkg/usr/bin pkg/etc
  printf 'Package: tiny\\nVersion: ${version}\\nArchitecture: all\\nMaintainer: Tests <t@example.invalid>\\nDescription: tiny\\n' > pkg/DEBIAN/control
  printf '#!/bin/sh\\nset -e\\nid tiny >/dev/null 2>&1 || useradd --system tiny\\nmkdir -p /var/lib/tiny\\nchown tiny /var/lib/tiny\\n' > pkg/DEBIAN/postinst
  printf '#!/bin/sh\\necho tiny ${version}\\n' > pkg/usr/bin/tiny
  echo conf > pkg/etc/tiny.conf
  chmod 755 pkg/DEBIAN/postinst pkg/usr/bin/tiny
  dpkg-deb --build pkg tiny_${version}.deb >/dev/null`

describe('user root on the image `host`', () => {
  beforeEach((ctx) => ctx.skip(skipped !== undefined, skipped))
  afterAll(() => provider.close())

  it('installs, upgrades and removes a package with apt-get, sudo and dpkg, which snapshots and forks keep', async () => {
    const sandbox = await provider.create({ user: 'root' })
    await sh(sandbox, build('1'))
    await sh(sandbox, 'sudo -n -- apt-get install -y ./tiny_1.deb')
    expect(await sh(sandbox, 'tiny; stat -c %U /var/lib/tiny; dpkg -s tiny | grep Status')).toBe(
      'tiny 1\ntiny\nStatus: install ok installed',
    )
    // On the machine it is an id that no account has, and nothing has been installed.
    const [runner] = runnersOf(sandbox.sandboxId)
    const ids = readFileSync(`/proc/${runner}/uid_map`, 'utf8').trim().split(/\s+/).map(Number)
    expect(statSync(`/proc/${runner}/root/usr/bin/tiny`).uid).toBe(ids[1])
    expect(ids[1]).toBeGreaterThan(65535)
    expect(statSync('/usr/bin/tiny', { throwIfNoEntry: false })).toBeUndefined()

    await sandbox.stop()
    await sandbox.start()
    await sh(sandbox, 'rm -rf pkg')
    await sh(sandbox, `${build('2')}; dpkg -i tiny_2.deb`)
    const [fork] = await sandbox.fork()
    if (fork instanceof Error) throw fork
    expect(await sh(fork!, 'id -u; tiny')).toBe('0\ntiny 2')
    const { snapshotId } = await sandbox.snapshot()
    const copy = await provider.create({ snapshotId, user: 'root' })
    await sh(copy, 'apt-get remove -y tiny')
    expect(await sh(copy, 'command -v tiny || echo gone')).toBe('gone')
    expect(await sh(sandbox, 'tiny')).toBe('tiny 2')
    // Without the option, a copy has the ordinary user and the machine's own programs.
    const plain = await provider.create({ snapshotId })
    expect(await sh(plain, 'id -u; command -v tiny || echo gone')).toBe('1000\ngone')
    for (const one of [sandbox, fork!, copy, plain]) await one.destroy()
    await provider.deleteSnapshot(snapshotId)
  }, 180_000)

  it('what it deleted below /usr stays deleted when a deep stack of snapshots is merged', async () => {
    let sandbox = await provider.create({ user: 'root' })
    await sh(
      sandbox,
      'rm /usr/bin/env; rm -r /usr/share/doc; mkdir /usr/share/doc; echo own > /usr/share/doc/own',
    )
    const made: string[] = []
    for (let depth = 0; depth < 24; depth++) {
      const { snapshotId } = await sandbox.snapshot()
      made.push(snapshotId)
      await sandbox.destroy()
      sandbox = await provider.create({ snapshotId, user: 'root' })
      await sh(sandbox, `echo ${depth} > /usr/bin/step-${depth}`)
      // One snapshot has the file, a later one replaces its folder.
      if (depth === 2) await sh(sandbox, 'mkdir /usr/share/made; echo old > /usr/share/made/old')
      if (depth === 5)
        await sh(sandbox, 'rm -r /usr/share/made /usr/share/man; mkdir /usr/share/made /usr/share/man')
    }
    await provider.idle()
    const merged = await provider.create({ snapshotId: made.at(-1)!, user: 'root' })
    expect(
      await sh(
        merged,
        '[ -e /usr/bin/env ] && echo back; find /usr/share/doc /usr/share/made /usr/share/man -type f; ls /usr/bin/step-0; ls / | wc -l',
      ),
    ).toMatch(/^\/usr\/share\/doc\/own\n\/usr\/bin\/step-0\n\d+$/)
    await merged.destroy()
    await sandbox.destroy()
    for (const snapshotId of made) await provider.deleteSnapshot(snapshotId)
  }, 180_000)

  it('with a limited disk, what it installs counts', async () => {
    const sandbox = await provider.create({ user: 'root', resources: { diskMb: 16 } })
    await expect(sh(sandbox, 'head -c 40000000 /dev/zero > /usr/local/big')).rejects.toThrow('No space left')
    await sandbox.destroy()
  }, 120_000)
})

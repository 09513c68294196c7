import {
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { policyFor } from '../seccomp/allowed-calls.ts'
import { type Bench, createBench, reasonToSkip } from '../testing/bench.ts'
import { testedRuntime } from '../testing/runtimes.ts'

/** Writable mounts of host folders: the owners of new files, and attacks on the host through the folder. */
describe.each(['crun', 'runc'] as const)('a writable mount on %s', (kind) => {
  const runtime = testedRuntime(kind)
  let reason: string | undefined
  let bench: Bench

  beforeAll(async () => {
    reason = await reasonToSkip('root', runtime)
    if (reason === undefined) bench = await createBench(runtime)
  }, 600_000)
  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  afterEach(async () => {
    await bench?.clear()
    expect(bench?.leftovers() ?? []).toEqual([])
  })
  afterAll(() => bench?.[Symbol.asyncDispose]())

  let count = 0
  function folder(owner: number): string {
    count += 1
    const path = join(bench.folder, `shared-${count}`)
    mkdirSync(path, { mode: 0o755 })
    writeFileSync(join(path, 'theirs'), 'before', { mode: 0o600 })
    for (const each of [path, join(path, 'theirs')]) chownSync(each, owner, owner)
    return path
  }
  const writable = (source: string) => [{ source, target: '/shared', readOnly: false, asOwner: true }]

  it.each([0, 1000, 54321])(
    'files that the sandbox writes belong to the owner of the folder: %i',
    async (owner) => {
      const source = folder(owner)
      const box = await bench.start({ mounts: writable(source) })
      const { err } = await box.sh(
        'cat /shared/theirs && echo after > /shared/theirs && echo x > /shared/new && mkdir /shared/sub && echo y > /shared/sub/file',
      )
      expect(err).toBe('')
      expect((await box.sh('stat -c %u:%g /shared /shared/new')).out).toBe('1000:1000\n1000:1000')
      for (const name of ['theirs', 'new', 'sub', 'sub/file']) {
        const { uid, gid } = lstatSync(join(source, name))
        expect([name, uid, gid]).toEqual([name, owner, owner])
      }
      expect(readFileSync(join(source, 'theirs'), 'utf8')).toBe('after\n')
      // The files API maps owners the same way.
      await box.client.files.write('/shared/by-api', 'z')
      expect(lstatSync(join(source, 'by-api')).uid).toBe(owner)
    },
  )

  it('the sandbox cannot read a file whose owner differs from the folder’s', async () => {
    const source = folder(1000)
    writeFileSync(join(source, 'roots'), 'secret', { mode: 0o600 })
    const box = await bench.start({ mounts: writable(source) })
    const { out, err } = await box.sh(
      'cat /shared/roots; echo x > /shared/roots; chmod 777 /shared/roots; id -u',
    )
    expect(out).toBe('1000')
    expect(err.match(/denied|not permitted|too large/g)).toHaveLength(3)
    expect(readFileSync(join(source, 'roots'), 'utf8')).toBe('secret')
  })

  it('no file gets a set-user-ID or set-group-ID bit, whichever call asks for it', async () => {
    const source = folder(0)
    const box = await bench.start({ mounts: writable(source) })
    expect((await box.sh('cp /usr/bin/id /shared/id && chmod 755 /shared/id')).err).toBe('')
    for (const mode of ['4755', '2755', '6755', 'u+s', 'g+s'])
      expect((await box.sh(`chmod ${mode} /shared/id`)).err).toContain('not permitted')
    const { numbers } = policyFor(process.arch === 'x64' ? 'x86_64' : 'aarch64')
    // AT_FDCWD is -100; 0x8100 | 04755 is a regular file. Each call would make the file, or change it.
    const calls: [name: string, args: string][] = [
      ['chmod', '"/shared/id", 04755'],
      ['fchmodat', '-100, "/shared/id", 04755'],
      ['fchmodat2', '-100, "/shared/id", 04755, 0'],
      ['creat', '"/shared/made", 04755'],
      ['open', '"/shared/made", 0101, 04755'],
      ['openat', '-100, "/shared/made", 0101, 02755'],
      ['openat', '-100, "/shared", 020200002, 04755'],
      ['mknod', '"/shared/made", 0104755, 0'],
      ['mknodat', '-100, "/shared/made", 0104755, 0'],
      // struct open_how: O_CREAT | O_WRONLY, 04755, 0
      ['openat2', '-100, "/shared/made", pack("Q3", 0101, 04755, 0), 24'],
    ]
    for (const [name, args] of calls) {
      const number = numbers[name]
      if (number === undefined) continue
      const call = `perl -e 'my @a = (${args}); my $r = syscall(${number}, map { my $x = $_; $x } @a); print $r < 0 ? "no" : "yes"'`
      expect([name, (await box.sh(call)).out]).toEqual([name, 'no'])
    }
    await expect(box.client.files.chmod('/shared/id', 0o4755)).rejects.toThrow()
    for (const name of readdirSync(source)) expect(lstatSync(join(source, name)).mode & 0o6000).toBe(0)
    // The same calls still create plain files.
    expect(
      (await box.sh('umask 0; mkdir -m 1777 /shared/d; : > /shared/d/f; mkfifo /shared/p; ls /shared/d')).out,
    ).toBe('f')
  })

  it('no device can be created, and a file capability cannot be set', async () => {
    const source = folder(0)
    const box = await bench.start({ mounts: writable(source) })
    for (const user of bench.users) {
      const said = await box.sh('mknod /shared/sda b 8 0; mknod /shared/mem c 1 1; ls /shared', { user })
      expect(said.out).toBe('theirs')
    }
    const capability = `perl -e 'my $n = "security.capability"; my $v = pack("V5", 0x2000001, 0xffffffff, 0, 0, 0); my $f = "/shared/theirs"; print syscall(${policyFor(process.arch === 'x64' ? 'x86_64' : 'aarch64').numbers.setxattr}, $f, $n, $v, 20, 0)'`
    expect((await box.sh(capability)).out).toBe('-1')
  })

  it('the sandbox cannot leave the folder through links, the parent or mounts below it', async () => {
    const source = folder(0)
    writeFileSync(join(bench.folder, 'outside'), 'secret', { mode: 0o644 })
    symlinkSync(join(bench.folder, 'outside'), join(source, 'link'))
    const box = await bench.start({ mounts: writable(source) })
    const { out } = await box.sh(
      `cat /shared/link; cat /shared/../outside; cd /shared && cat ../outside; ln -s ${bench.folder} /shared/up; cat /shared/up/outside; echo x > /shared/link; ln ${join(bench.folder, 'outside')} /shared/hard`,
    )
    expect(out).toBe('')
    expect(readFileSync(join(bench.folder, 'outside'), 'utf8')).toBe('secret')
  })

  it('the next start rejects a link that replaced a mounted folder', async () => {
    const source = folder(0)
    mkdirSync(join(source, 'sub'))
    const mounts = [
      ...writable(source),
      { source: join(source, 'sub'), target: '/sub', readOnly: false, asOwner: true, exact: true },
    ]
    const box = await bench.start({ sandboxId: 'redirect', mounts })
    // One mount is inside the other, so the sandbox can replace the inner folder with a link.
    expect((await box.sh('mv /shared/sub /shared/old && ln -s /etc /shared/sub && echo done')).out).toBe(
      'done',
    )
    await box.sandbox.kill()
    const again = await bench.isolator.start(box.spec).catch((error: unknown) => error)
    expect(SandboxError.is(again)).toBe(true)
    expect((again as Error).message).toMatch(/sub: .*symbolic links/i)
  })

  it('mounts of / and of file systems that cannot map owners are rejected', async () => {
    for (const [mounts, code] of [
      [[{ source: '/', target: '/shared', readOnly: false, asOwner: true }], 'invalid_argument'],
      [[{ source: '/proc', target: '/shared', readOnly: false, asOwner: true }], undefined],
    ] as const) {
      const error = await bench.isolator.start(bench.spec({ mounts })).catch((error: unknown) => error)
      expect(SandboxError.is(error)).toBe(true)
      if (code) expect(error).toMatchObject({ code })
      else expect((error as Error).message).toContain('cannot map owners')
    }
    expect(bench.leftovers()).toEqual([])
  })
})

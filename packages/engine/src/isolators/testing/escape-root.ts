import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Cage, Captive } from './cage.ts'

/**
 * Attempts that need root inside: a sandbox with `user: root` on the image `host`. Root there has capabilities over
 * its own files and users only, and its `/usr` is a layer over the machine's.
 */
export function rootEscapes(open: () => Promise<Cage>, reason: string | undefined): void {
  let cage: Cage
  let box: Captive
  /** Made on the host, and removed at the end. */
  const made: string[] = []
  const secret = join('/usr/local/share', `secret-${process.pid}`)

  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  beforeAll(async () => {
    if (reason !== undefined) return
    cage = await open()
    made.push(secret)
    mkdirSync(secret)
    writeFileSync(join(secret, 'owner'), 'only for root', { mode: 0o600 })
    writeFileSync(join(secret, 'group'), 'only for the group', { mode: 0o640 })
    mkdirSync(join(secret, 'closed'), { mode: 0o700 })
    writeFileSync(join(secret, 'closed/file'), 'in a closed folder', { mode: 0o644 })
    mkdirSync(join(secret, 'open'), { mode: 0o755 })
    writeFileSync(join(secret, 'open/file'), 'in an open folder', { mode: 0o644 })
    box = await cage.start()
  }, 600_000)
  afterAll(async () => {
    for (const path of made) rmSync(path, { recursive: true, force: true })
    await cage?.[Symbol.asyncDispose]()
  }, 120_000)

  describe('the machine’s programs', () => {
    it('can be replaced and deleted in the sandbox, and stay as they are on the machine', async () => {
      const before = lstatSync('/usr/bin/env')
      const names =
        'rm /usr/bin/env && echo new > /usr/bin/env && mkdir /usr/lib/made && mv /usr/share/misc /usr/moved'
      expect(await box.sh(`${names}; chmod 4777 /usr /usr/bin/env; cat /usr/bin/env`)).toMatchObject({
        out: 'new',
      })
      const after = lstatSync('/usr/bin/env')
      expect([after.ino, after.size, after.mode, after.mtimeMs]).toEqual([
        before.ino,
        before.size,
        before.mode,
        before.mtimeMs,
      ])
      expect([existsSync('/usr/lib/made'), existsSync('/usr/moved'), statSync('/usr').mode & 0o7777]).toEqual(
        [false, false, 0o755],
      )
      expect(existsSync('/usr/share/misc')).toBe(true)
    })

    it('files that not every account may read stay closed, whatever root does with their folders', async () => {
      const reads = `cat ${secret}/owner ${secret}/group ${secret}/closed/file; ls ${secret}/closed; cat ${secret}/open/file`
      const open = 'in an open folder'
      expect((await box.sh(reads)).out).toBe(open)
      await box.sh(
        `cd ${secret}; chmod 777 owner group closed; chown 0:0 owner group closed; chown -R 1000 .; mv closed closed2; cp -a owner o2; ln owner o3; setfacl -m u:0:r owner`,
      )
      expect(
        (await box.sh(`${reads}; cat o2 o3 closed2/file ${secret}/{o2,o3} ${secret}/closed2/file`)).out,
      ).toBe(open)
      expect((await box.sh(reads, { user: '1000' })).out).toBe(open)
      expect(readFileSync(join(secret, 'owner'), 'utf8')).toBe('only for root')
    })

    it('a folder that the machine closes is closed at the next start', async () => {
      chmodSync(join(secret, 'open'), 0o700)
      try {
        // The layer with the public folders is older than this change.
        const next = await cage.start()
        expect((await next.sh(`cat ${secret}/open/file; ls ${secret}/open`)).out).toBe('')
        await next.sandbox.kill()
      } finally {
        chmodSync(join(secret, 'open'), 0o755)
      }
    })

    it('what the image hides is absent', async () => {
      const path = '/usr/local/etc'
      if (!existsSync(path)) {
        made.push(path)
        mkdirSync(path)
      }
      const probe = join(path, `probe-${process.pid}`)
      made.push(probe)
      writeFileSync(probe, 'configuration of the machine', { mode: 0o644 })
      const next = await cage.start()
      expect((await next.sh(`cat ${probe}; ls -A ${path}`)).out).toBe('')
      // It is not covered, so a package can install its own.
      expect(await next.sh(`mkdir -p ${path} && echo own > ${path}/own && cat ${path}/own`)).toMatchObject({
        out: 'own',
      })
      expect(existsSync(join(path, 'own'))).toBe(false)
      await next.sandbox.kill()
    })
  })

  describe('folders of the machine', () => {
    it('in a read-only mount, root reads what every account may read, and changes nothing', async () => {
      const folder = join(cage.folder, 'shared')
      mkdirSync(folder)
      chmodSync(cage.folder, 0o755)
      writeFileSync(join(folder, 'public'), 'public', { mode: 0o644 })
      writeFileSync(join(folder, 'of-root'), 'only for root', { mode: 0o600 })
      writeFileSync(join(folder, 'program'), '', { mode: 0o644 })
      chmodSync(join(folder, 'program'), 0o4755)
      const one = await cage.start({ mounts: [{ source: folder, target: '/shared' }] })
      expect((await one.sh('cat /shared/*')).out).toBe('public')
      const { err } = await one.sh(
        'cd /shared; chmod 777 of-root; chown 0 of-root; rm public; touch new; cat of-root',
      )
      expect(err.split('\n')).toHaveLength(5)
      expect((await one.sh('stat -c %u /shared/of-root')).out).toBe('65534')
      await one.sandbox.kill()
    })

    it('in a writable mount, root is the folder’s owner and no other user, and sets no set-user-ID bit', async (ctx) => {
      ctx.skip(cage.traits.ownKernel === true, 'writable mounts are refused on gVisor')
      const folder = join(cage.folder, 'project')
      mkdirSync(folder)
      writeFileSync(join(folder, 'foreign'), 'of another account', { mode: 0o600 })
      const { chownSync } = await import('node:fs')
      chownSync(folder, 4321, 4321)
      const one = await cage.start({
        mounts: [{ source: folder, target: '/project', readOnly: false, asOwner: true }],
      })
      await one.sh(
        'cd /project; echo x > mine; cp /usr/bin/perl p; chmod 4755 p; chmod 6755 mine; chown 1 mine; chown 0:1 mine; chmod 666 foreign; chown 0 foreign; mknod d c 1 1',
      )
      expect((await one.sh('cat /project/foreign')).out).toBe('')
      const facts = (name: string) => {
        const { uid, gid, mode } = statSync(join(folder, name))
        return [uid, gid, mode & 0o6000]
      }
      expect([facts('mine'), facts('p'), facts('foreign')]).toEqual([
        [4321, 4321, 0],
        [4321, 4321, 0],
        [0, 0, 0],
      ])
      expect(existsSync(join(folder, 'd'))).toBe(false)
      await one.sandbox.kill()
    })

    it('what root writes is no file of a privileged user for any account that can reach it', async () => {
      await box.sh(
        'cp /usr/bin/perl /workspace/set; chmod 6755 /workspace/set; cp /usr/bin/perl /usr/local/bin/set; chmod 6755 /usr/local/bin/set',
      )
      const upper = box.sandbox.upper!
      const raw = join(upper, 'workspace/set')
      expect(statSync(raw).mode & 0o7777).toBe(0o6755)
      // On the disk, files have the owners that the sandbox sees, behind a folder that only root can open.
      const parents = [dirname(upper), box.spec.folder].map((path) => statSync(path).mode & 0o077)
      expect(parents.some((mode) => mode === 0)).toBe(true)
      if (cage.traits.ownKernel) return
      for (const path of ['/workspace/set', '/usr/local/bin/set'])
        expect(statSync(`/proc/${box.runnerPid}/root${path}`).uid).toBe(box.hostId?.(0) ?? box.firstId)
    })
  })

  describe('the kernel', () => {
    it('root cannot mount, enter namespaces, write settings or control groups, or get capabilities', async () => {
      const tries = [
        'mount -t tmpfs none /mnt',
        'mount -t proc none /mnt',
        'mount --bind / /mnt',
        'mount -o remount,rw /proc',
        'mount -o remount,suid /',
        'umount -l /usr',
        'pivot_root / /mnt',
        'chroot / true',
        'unshare -m true',
        'unshare -U true',
        'nsenter -t 1 -m true',
        // gVisor makes the file, which refers to no device.
        'mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem',
        'echo 0 > /proc/sys/kernel/randomize_va_space',
        'echo b > /proc/sysrq-trigger',
        'hostname other',
        'date -s 2001-01-01',
        'ip link set lo down',
        'ip addr add 192.0.2.1/24 dev lo',
        'nft list ruleset',
        'setcap cap_sys_admin+ep /workspace/set',
        'setpriv --inh-caps +sys_admin --ambient-caps +sys_admin true',
        'prlimit --nofile=1000000:1000000 true',
        'chrt -f 10 true',
        'dmesg',
        'insmod /tmp/x.ko',
        'losetup -f /tmp/x',
        'swapon /tmp/x',
        'reboot -f',
      ]
      // In gVisor these reach its own kernel and its own PID 1 only.
      if (!cage.traits.ownKernel)
        tries.push(
          'renice -n -5 $$',
          'echo -900 > /proc/self/oom_score_adj',
          'echo 1 > /proc/sys/net/ipv4/ip_forward',
          'kill -9 1; false',
        )
      const done: string[] = []
      for (const line of tries) if ((await box.sh(line)).code === 0) done.push(line)
      expect(done).toEqual([])
      expect(
        (
          await box.sh(
            'find / -xdev -name cgroup.procs 2>/dev/null; cat /proc/self/mountinfo | grep -c cgroup',
          )
        ).out,
      ).toBe('0')
      expect((await box.sh('echo alive')).out).toBe('alive')
    })

    it('root keeps its sandbox’s limits, and cannot read the runner', async () => {
      const { out } = await box.sh(
        [
          `perl -e 'for my $f (qw(mem environ maps auxv syscall stack fd/4 cwd/x root/etc/passwd)) {`,
          `open(my $h, "<", "/proc/1/$f") and sysread($h, my $b, 1) and print "$f " }`,
          `for my $f ("cwd/", "root/") { opendir(my $d, "/proc/1/$f") and print "$f " }'`,
        ].join(' '),
      )
      // gVisor shows some of these to all users; `escape.ts` checks that they are useless.
      if (!cage.traits.ownKernel) expect(out).toBe('')
      expect(
        (await box.sh('rm -f /run/sandkasten-runner; echo > /run/sandkasten-runner; ls /run')).out,
      ).toContain('sandkasten-runner')
    })

    it('commands that drop their groups are still killed with what they have started', async () => {
      const seconds = `876${process.pid}`
      await box.client.startDetached({
        id: 'dropper',
        argv: [
          '/bin/sh',
          '-c',
          `setpriv --reuid=1000 --regid=1000 --clear-groups setsid sleep ${seconds} & sleep 1000`,
        ],
      })
      const alive = async () =>
        (await box.sh(`cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o "[s]leep ${seconds}" | head -1`)).out
      await expect.poll(alive, { timeout: 10_000 }).toBe(`sleep ${seconds}`)
      await box.client.signal('dropper', 'KILL', { group: true })
      await expect.poll(alive, { timeout: 10_000 }).toBe('')
    })
  })
}

import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { RunnerClient } from '@sandkasten/runner-client'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { thisArchitecture } from '../oci/probe.ts'
import { policyFor } from '../oci/seccomp/allowed-calls.ts'
import { type Cage, type Captive, readOr } from './cage.ts'

const ENTRIES =
  'bin dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys tmp usr var workspace'.split(
    ' ',
  )
const DEVICES = 'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero'.split(' ')
const FOLDERS = new Set(['pts', 'shm'])

/**
 * The escape corpus: attacks from inside, as the sandbox's user and, where it makes a difference, as its root. It runs
 * on every isolator with the image `host`, and again in sandboxes whose user is root, and uses sh and perl, which every Debian has. Each hardening step has a test
 * here that fails without it.
 */
export function escapeCorpus(open: () => Promise<Cage>, reason: string | undefined): void {
  let cage: Cage
  let box: Captive
  let other: Captive
  let users: readonly string[]
  /** The most privileged user in the sandbox. */
  let root: { user: string }
  /** A user without privileges. */
  const nobody = { user: '1000' }
  /** A file that every user of the host may read. */
  let marker: string

  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  beforeAll(async () => {
    if (reason !== undefined) return
    cage = await open()
    users = cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']
    root = { user: users.at(-1)! }
    marker = join('/var/tmp', `marker-${process.pid}`)
    writeFileSync(marker, 'the host’s own', { mode: 0o644 })
    box = await cage.start({ env: { TOKEN: 'a-secret-value' } })
    other = await cage.start()
  }, 600_000)
  afterAll(async () => {
    if (marker) rmSync(marker, { force: true })
    await cage?.[Symbol.asyncDispose]()
  }, 120_000)

  describe('files of the host', () => {
    it('are not visible: secrets, home folders, state and world-readable files', async () => {
      const entries = (await box.sh('ls -A /')).out.split('\n')
      const expected = [...ENTRIES, ...cage.traits.entries]
      expect(entries.filter((name) => !expected.includes(name))).toEqual([])
      for (const user of users) {
        const tries = `cat /etc/shadow /etc/gshadow ${marker} /proc/1/root${marker} /proc/self/root${marker} ../../../..${marker}; ls -A /root /home/* /opt /srv /mnt /media /sys /var/lib /var/log`
        const { out } = await box.sh(tries, { user })
        expect(out).not.toContain('host’s own')
        expect(
          out
            .split('\n')
            .filter((line) => line !== '' && !line.endsWith(':') && !line.startsWith('.'))
            // Folders of the sandbox's own package manager.
            .filter((line) => !cage.traits.asRoot || !['apt', 'dpkg'].includes(line)),
        ).toEqual([])
      }
    })

    it('cannot be reached by a link, nor by a link through the file interface', async () => {
      await box.sh(
        `ln -sf ${marker} /workspace/link; ln -sf /proc/1/root/ /workspace/root; ln -sf /proc/self/root/ /workspace/self`,
      )
      for (const path of ['link', `root${marker}`, `self${marker}`, 'link/../../../../etc/shadow']) {
        await expect(box.client.files.read(`/workspace/${path}`)).rejects.toSatisfy((error) =>
          SandboxError.is(error),
        )
      }
    })

    it('programs of the host are read-only, and only world-readable files can be read', async () => {
      for (const user of cage.traits.asRoot ? ['1000'] : users) {
        const tries =
          'touch /usr/x; rm -f /usr/bin/env; mkdir /usr/lib/y; chmod 777 /usr; mv /usr/bin/env /usr/bin/env2'
        const { err } = await box.sh(tries, { user })
        expect(
          err
            .split('\n')
            .filter(
              (line) =>
                !refusal(cage, cage.traits.asRoot ? 'denied|not permitted' : 'Read-only file system').test(
                  line,
                ),
            ),
          err,
        ).toEqual([])
      }
      // Only root can create this file.
      if (process.getuid?.() !== 0) return
      const secret = `/usr/local/share/secret-${process.pid}`
      writeFileSync(secret, 'only for root', { mode: 0o600 })
      try {
        // Without its own ids, the sandbox's root owns the machine's files and can read them.
        for (const user of cage.traits.ids === 'machine' ? ['1000'] : users)
          expect(await box.sh(`cat ${secret}`, { user })).toMatchObject({ out: '', code: 1 })
      } finally {
        rmSync(secret)
      }
    })

    it('only harmless devices exist, and no device can be created', async () => {
      expect((await box.sh('ls /dev')).out.split('\n').sort()).toEqual(
        [...DEVICES, ...cage.traits.devices].sort(),
      )
      const make = 'cd /tmp; mknod disk b 254 0; mknod mem c 1 1'
      for (const user of users) {
        if (!cage.traits.ownKernel) expect((await box.sh(`${make}; ls /tmp`, { user })).out).toBe('')
        // gVisor creates the file but has no such device.
        else expect((await box.sh(`${make}; cat disk mem; rm -f disk mem`, { user })).out).toBe('')
      }
    })

    it('kernel settings cannot be read or changed', async () => {
      for (const user of users) {
        const paths = [
          '/proc/sys/kernel/core_pattern',
          '/proc/sys/kernel/hostname',
          '/proc/sys/vm/overcommit_memory',
          '/proc/sysrq-trigger',
          '/proc/irq/0/smp_affinity',
        ]
        for (const path of paths) {
          expect((await box.sh(`echo 1 > ${path} && echo WRITTEN`, { user })).out, path).toBe('')
        }
        expect(
          (
            await box.sh(
              'cat /proc/keys /proc/timer_list /proc/kcore /proc/acpi/* /proc/scsi/* 2>/dev/null | wc -c',
              { user },
            )
          ).out,
        ).toBe('0')
        expect((await box.sh('ls -A /sys', { user })).out).toBe('')
      }
      // The path must be covered, not only unreadable, because a later kernel may show more there.
      const covered = cage.traits.ownKernel ? [] : ['/proc/keys', '/proc/timer_list']
      for (const path of covered.filter(existsSync)) {
        expect(await box.sh(`test -c ${path}`), path).toMatchObject({ code: 0 })
      }
      // The sandbox's root does not own this network (`oci.test.ts` tests an owned one), or the file is read-only.
      expect((await box.sh('echo 7 > /proc/sys/net/ipv4/ip_default_ttl', root)).err).toMatch(
        /Read-only|denied|not permitted/,
      )
    })
  })

  describe('users and privileges', () => {
    it('a command has a filter and no capabilities, cannot gain any, and with its own ids is no user of the host', async () => {
      const { out } = await box.sh(
        'grep -E "^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp|Uid|Groups):" /proc/self/status; cat /proc/self/uid_map',
      )
      const me = cage.traits.asRoot ? '0' : '1000'
      const privileges = cage.traits.asRoot ? '00000000000000fb' : '0000000000000000'
      expect(out.replace(/[ \t]+/g, ' ').split('\n')).toEqual(
        [
          `Uid: ${Array(4).fill(me).join(' ')}`,
          `Groups: ${me} `,
          'CapInh: 0000000000000000',
          `CapPrm: ${privileges}`,
          `CapEff: ${privileges}`,
          // gVisor does not report these and maps its own ids. A test below covers setuid programs.
          ...(cage.traits.ownKernel ? [] : ['CapAmb: 0000000000000000', 'NoNewPrivs: 1']),
          'Seccomp: 2',
          cage.traits.ids === 'account'
            ? ' 1000 0 1'
            : ` 0 ${cage.traits.ownKernel ? 0 : box.firstId} ${cage.traits.ids === 'machine' || cage.traits.ownKernel ? 2 ** 32 - 1 : 65536}`,
        ].map((line) =>
          line.startsWith('Groups')
            ? expect.stringMatching(cage.traits.asRoot ? /^Groups: ?(0 )?$/ : /^Groups:.* 1000 /)
            : line,
        ),
      )
      if (cage.traits.ownKernel) {
        // No process of the host has an id of this sandbox.
        const uids = hostProcesses(box.runnerPid).map(({ uid }) => uid)
        expect(uids.length).toBeGreaterThan(1)
        expect(uids.every((uid) => uid === hostIdOf(box, 0))).toBe(true)
        return
      }
      // Only the process of this test: other tests may run the same program.
      const seconds = `987${process.pid}`
      await box.client.startDetached({ id: 'sleeper', argv: ['/bin/sleep', seconds] })
      const sleeper = (await box.client.list()).find(({ id }) => id === 'sleeper')!
      expect(sleeper.pid).toBeGreaterThan(1)
      const uids = () =>
        hostProcesses()
          .filter(({ command }) => command.includes(`sleep\x00${seconds}`))
          .map(({ uid }) => uid)
      // A process gets its name shortly after its start.
      await expect.poll(uids, { timeout: 10_000 }).toContain(hostIdOf(box, Number(me)))
      const least = { own: 65536, common: 65536, machine: 0, account: 1 }[cage.traits.ids]
      expect(uids().every((uid) => uid >= least)).toBe(true)
      await box.client.signal('sleeper', 'KILL')
    })

    it('its root has the capabilities of the runner, or if it runs commands those of a package manager', async (ctx) => {
      ctx.skip(cage.traits.ids === 'account', 'the sandbox has no root')
      const { out } = await box.sh('grep -E "^Cap" /proc/self/status', { user: '0' })
      expect(new Set(out.match(/[0-9a-f]{16}/g))).toEqual(
        new Set(['0000000000000000', cage.traits.asRoot ? '00000000000000fb' : '00000000000000e0']),
      )
    })

    it('a setuid program gives no privileges', async () => {
      await box.sh(
        'cp /usr/bin/perl /var/tmp/perl; chmod 4755 /var/tmp/perl; cp /usr/bin/perl /tmp/perl; chmod 4755 /tmp/perl',
        root,
      )
      for (const program of ['/var/tmp/perl', '/tmp/perl']) {
        expect((await box.sh(`test -u ${program} && ${program} -e 'print "$< $>"'`, nobody)).out).toBe(
          '1000 1000',
        )
      }
      expect(
        (await box.sh('setpriv --reuid 0 id -u || perl -e \'$> = 0; $< = 0; print "$< $>"\'', nobody)).out,
      ).toBe('1000 1000')
    })
  })

  describe('mounts', () => {
    it('all are nosuid, and all but /dev are nodev', async (ctx) => {
      ctx.skip(cage.traits.daemonMounts === true, 'a daemon chooses its own mount options')
      ctx.skip(
        cage.traits.ownKernel === true,
        'gVisor does not report mount options; another test covers setuid programs',
      )
      const lines = (await box.sh('cat /proc/self/mountinfo')).out.split('\n')
      expect(lines.length).toBeGreaterThan(8)
      for (const [, , , , target, options] of lines.map((line) => line.split(' '))) {
        // Below /proc are masked paths: each an empty, read-only folder, or the null device, which is not executable.
        if (
          target!.startsWith('/proc/') ||
          DEVICES.some((name) => target === `/dev/${name}` && !FOLDERS.has(name))
        )
          continue
        expect(`${target}: ${options}`).toMatch(/\bnosuid\b/)
        // In /dev are the host's harmless devices, one mount each, and its terminals.
        if (!/^\/dev(\/|$)/.test(target!)) expect(`${target}: ${options}`).toMatch(/\bnodev\b/)
      }
    })

    it('no process dumps core', async () => {
      expect((await box.sh('ulimit -Hc; ulimit -c 100 && echo raised')).out).toBe('0')
    })
  })

  describe('the runner and its socket', () => {
    it('are not accessible to programs in the sandbox', async () => {
      // Root inside may list the descriptors, but open none of them.
      const look = `cat /proc/1/environ; cat /proc/1/maps; ${cage.traits.asRoot ? 'cat /proc/1/fd/4' : 'ls /proc/1/fd'}`
      // gVisor shows these to all users, so they must not contain anything useful.
      // As root it is the same user as PID 1, and may open its descriptors (SECURITY.md).
      if (cage.traits.ownKernel && !cage.traits.asRoot) await uselessView(box)
      const tries = [
        cage.traits.ownKernel ? 'cat /proc/1/mem; ls /proc/1/cwd/; ls /proc/1/task/1/root/' : look,
        // In gVisor, root may end PID 1, and with it its own sandbox.
        `ls /proc/1/root/; ${cage.traits.ownKernel && cage.traits.asRoot ? '' : 'kill -9 1;'} mv /run/sandkasten-runner /run/x`,
        ...(cage.traits.socket === 'named'
          ? ['ls /run/sandkasten; mv /run/sandkasten /run/x; rm -rf /run/sandkasten/runner.sock']
          : []),
      ]
      const { out, err } = await box.sh(tries.join('; '))
      expect(out).toBe('')
      // A process of the same user may signal PID 1, but the kernel does not deliver the signal.
      const signals = cage.traits.ids === 'account' || cage.traits.asRoot ? 0 : 1
      const refusals = (cage.traits.socket === 'named' ? 8 : 5) + signals
      expect(err.match(/denied|not permitted|busy/gi)!.length, err).toBeGreaterThanOrEqual(refusals)
      const connect = `perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer => "/run/sandkasten/runner.sock") ? "IN" : "$!"'`
      expect((await box.sh(connect)).out).toBe(
        cage.traits.socket === 'named' ? 'Permission denied' : 'No such file or directory',
      )
      expect((await box.sh('echo alive')).out).toBe('alive')
    })

    it('the socket has no name inside, or a name that does not lead outside', async () => {
      if (cage.traits.socket === 'unnamed') {
        for (const user of users) {
          const { out } = await box.sh('find / -xdev -type s 2>/dev/null; find /run /tmp -type s', { user })
          expect(out).toBe('')
          const known = (await box.sh('cat /proc/net/unix', { user })).out
          expect(known).not.toContain(dirname(box.socket))
          expect(known).not.toContain(box.spec.sandboxId)
        }
        return
      }
      // The sandbox's root may replace the socket, but the engine never connects to a socket of the host.
      const victim = await cage.start()
      const path = join(cage.folder, 'host.sock')
      let visitors = 0
      const server = createServer((socket) => {
        visitors += 1
        socket.destroy()
      }).listen(path)
      await once(server, 'listening')
      const unreachable = () => expect(greeted(victim)).resolves.toBe(false)
      for (const target of [path, other.spec.folder, other.socket]) {
        const swap = `rm /run/sandkasten/runner.sock; ln -s ${target} /run/sandkasten/runner.sock`
        expect((await victim.sh(swap, { user: '0' })).code).toBe(0)
        await unreachable()
      }
      await victim.sh('rm /run/sandkasten/runner.sock; mkfifo /run/sandkasten/runner.sock', { user: '0' })
      await unreachable()
      expect(visitors).toBe(0)
      server.close()
      await victim.sandbox.kill()
    })

    it('no device of the host changes its owner, although runtimes chown their standard streams', async () => {
      const owners = () =>
        ['null', 'zero', 'tty', 'random', 'urandom', 'full']
          .map((name) => join(cage.dev ?? '/dev', name))
          .filter(existsSync)
          .map((path) => statSync(path))
          .map(({ uid, gid, mode }) => [uid, gid, mode] as const)
      const before = owners()
      const one = await cage.start()
      expect((await one.sh('echo x > /dev/null; stat -c %a /dev/null')).out).toBe('666')
      expect(owners()).toEqual(before)
      if (cage.traits.ids !== 'machine')
        for (const [uid, gid] of before) expect([uid, gid]).not.toContain(hostIdOf(one, 0))
      await one.sandbox.kill()
      expect(owners()).toEqual(before)
    })

    it('a secret in the environment is in no argument list and in no file of the engine', async () => {
      expect((await box.sh('echo $TOKEN')).out).toBe('a-secret-value')
      for (const { command } of hostProcesses()) expect(command).not.toContain('a-secret-value')
      for (const file of box.notes) expect(readOr(file) ?? '').not.toContain('a-secret-value')
    })
  })

  describe('other processes', () => {
    it('on the host and of the runner cannot be seen, signalled or traced', async () => {
      const pids = (await box.sh('ls /proc | grep "^[0-9]"')).out.split('\n')
      expect(pids.length).toBeLessThan(10)
      const trace = policyFor(thisArchitecture()).numbers.ptrace!
      for (const user of users) {
        expect(
          (await box.sh(`perl -e 'syscall(${trace}, 16, 1, 0, 0) == -1 and print $! + 0'`, { user })).out,
        ).toBe('1')
        const pids = [process.pid, ...box.outsiders, other.runnerPid]
        const outside = `perl -e 'print ${pids.map((pid) => `kill(0, ${pid})`).join(', ')}'`
        expect((await box.sh(outside, { user })).out).toBe('0'.repeat(pids.length))
      }
    })

    it('of another sandbox are separate, as are its user, files, queues and sockets', async () => {
      if (cage.traits.ids === 'own')
        expect(Math.abs(box.firstId - other.firstId)).toBeGreaterThanOrEqual(65536)
      await other.sh('echo theirs > /workspace/file; echo theirs > /tmp/file; echo theirs > /dev/shm/file')
      await other.client.startDetached({
        id: 'listener',
        argv: [
          '/usr/bin/perl',
          '-MSocket',
          '-e',
          'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack("Sa*", AF_UNIX, "\\0theirs")); listen(S, 1); sleep 1000',
        ],
      })
      const { out } = await box.sh(
        'cat /workspace/file /tmp/file /dev/shm/file; ls /proc/*/cwd 2>/dev/null | grep theirs; ipcs -m 2>/dev/null | grep 0x',
      )
      expect(out).toBe('')
      const dial = `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); print connect(S, pack("Sa*", AF_UNIX, "\\0theirs")) ? "IN" : $! + 0'`
      await expect.poll(async () => (await other.sh(dial)).out, { timeout: 10_000 }).toBe('IN')
      expect((await box.sh(dial)).out).toBe('111')
      // Neither sandbox would own the files of the other.
      expect((await other.sh('stat -c %u /workspace')).out).toBe(cage.traits.asRoot ? '0' : '1000')
    })
  })

  describe('network none', () => {
    it('reaches only its own loopback', async () => {
      expect((await box.sh('sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')).out).toBe('lo')
      const server = createServer((socket) => socket.end('host')).listen(0, '0.0.0.0')
      await once(server, 'listening')
      const { port } = server.address() as { port: number }
      const reach = (host: string) =>
        box.sh(
          `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(PeerAddr => "${host}", Timeout => 2) ? "IN" : "$!"'`,
        )
      expect((await reach(`127.0.0.1:${port}`)).out).toBe('Connection refused')
      for (const host of ['192.0.2.1:80', '1.1.1.1:53', '169.254.169.254:80'])
        expect((await reach(host)).out).toMatch(
          cage.traits.ownKernel ? /^No route to host$/ : /^Network is unreachable$/,
        )
      server.close()
      // Abstract sockets of the host belong to its network namespace and are not reachable either.
      expect((await box.sh('wc -l < /proc/net/unix')).out).toMatch(/^\d$/)
    })

    it('cannot add an interface', async () => {
      for (const user of users)
        expect((await box.sh('ip link add d0 type dummy && echo MADE', { user })).out).toBe('')
    })
  })

  describe('a flood', () => {
    it('of output neither stalls the sandbox nor grows the memory of its runner', async () => {
      const before = rss(box.runnerPid)
      const result = await box.client.run({
        id: 'log',
        argv: ['/bin/sh', '-c', 'head -c 200000000 /dev/zero; echo end'],
        maxBytes: 65536,
      })
      expect(result.exitCode).toBe(0)
      expect(result.stdout.subarray(-4).toString()).toBe('end\n')
      expect(rss(box.runnerPid) - before).toBeLessThan(4096)
    })

    it('of memory, by each kind of allocation, stops at the limit and does not affect the host', async () => {
      const victim = await cage.start({
        limits: { memoryBytes: 48 * 1024 * 1024, tmpBytes: 1024 * 1024 * 1024, shmBytes: 1024 * 1024 * 1024 },
      })
      // Killing the writer does not free files in memory, so the kernel ends the whole sandbox and counts that.
      for (const path of ['/tmp/x', '/dev/shm/x'])
        await victim.sh(`exec head -c 200000000 /dev/zero > ${path}`).catch(() => {})
      expect((await other.sh('echo fine')).out).toBe('fine')
      const { oom } = await victim.sandbox.kill()
      if (cage.traits.countsOom) expect(oom).toBe(true)
      else expect(oom).not.toBe(false)
    })
  })

  it('a sandbox with a deep tree can be removed', async () => {
    const victim = await cage.start()
    mkdirSync(join(cage.folder, 'kept'), { recursive: true })
    writeFileSync(join(cage.folder, 'kept/file'), 'kept')
    const script = `perl -e 'for (1..300) { mkdir "d" x 200; chdir "d" x 200 or die $! } print "deep"'; ln -s ${cage.folder}/kept /workspace/away`
    expect((await victim.sh(script)).out).toBe('deep')
    expect(await cage.remove(victim)).toEqual([])
    expect(readFileSync(join(cage.folder, 'kept/file'), 'utf8')).toBe('kept')
  })
}

/** gVisor's error messages differ from those of Linux. */
function refusal({ traits }: Cage, words: string): RegExp {
  return new RegExp(traits.ownKernel ? `${words}|denied|not permitted` : words)
}

/** PID 1 shows only variables that every command has, and none of its descriptors can be opened. */
async function uselessView(box: Captive): Promise<void> {
  const known = (await box.sh('env')).out.split('\n')
  const seen = (await box.sh("tr '\\0' '\\n' < /proc/1/environ")).out.split('\n')
  expect(seen.filter((line) => !known.includes(line) && !line.startsWith('HOME='))).toEqual([])
  const open = `perl -MFcntl -e 'for (glob "/proc/1/fd/*") { print ++$tried, " "; for my $how (O_RDONLY, O_WRONLY, O_RDWR) { print "$_ OPENED" if sysopen F, $_, $how | O_NONBLOCK } }'`
  expect((await box.sh(open)).out).toMatch(/^\d+( \d+){4,}$/)
}

/** Whether any process answers on this sandbox's runner socket. */
async function greeted({ sandbox }: Captive): Promise<boolean> {
  try {
    const client = await RunnerClient.connect(await sandbox.connect())
    client.close()
    return true
  } catch {
    return false
  }
}

function hostIdOf({ hostId, firstId }: Captive, inside: number): number {
  return hostId ? hostId(inside) : firstId + inside
}

/** All processes, or one process and its children. */
function hostProcesses(parent?: number): { uid: number; command: string }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const status = pids.map((pid) => [readOr(`/proc/${pid}/status`), readOr(`/proc/${pid}/cmdline`)] as const)
  const isOf = (text = '') => parent === undefined || new RegExp(`^P?Pid:\\t${parent}$`, 'm').test(text)
  return status
    .filter(([text]) => isOf(text))
    .map(([text, command]) => ({
      uid: Number(/^Uid:\s+(\d+)/m.exec(text ?? '')?.[1]),
      command: command ?? '',
    }))
}

export function rss(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])
}

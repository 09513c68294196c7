import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { thisArchitecture } from '../oci/probe.ts'
import { policyFor } from '../oci/seccomp/allowed-calls.ts'
import type { Cage, Captive } from './cage.ts'

/** Makes each refused call as the sandbox's user and as its root, and checks that the kernel refuses it. */
export function refusedCalls(open: () => Promise<Cage>, reason: string | undefined): void {
  let cage: Cage
  let box: Captive

  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  beforeAll(async () => {
    if (reason !== undefined) return
    cage = await open()
    box = await cage.start()
  }, 600_000)
  afterAll(async () => cage?.[Symbol.asyncDispose](), 120_000)

  describe('refused system calls', () => {
    const [EPERM, EAFNOSUPPORT, ENOSYS] = [1, 97, 38]
    const newUser = 0x10000000

    it.each([
      ['mount', [0, 0, 0, 0, 0], EPERM],
      ['umount2', [0, 0], EPERM],
      ['pivot_root', [0, 0], EPERM],
      ['chroot', [0], EPERM],
      ['fsopen', [0, 0], EPERM],
      ['open_tree', [-100, 0, 1], EPERM],
      ['move_mount', [-1, 0, -1, 0, 0], EPERM],
      ['mount_setattr', [-1, 0, 0, 0, 0], EPERM],
      ['unshare', [newUser], EPERM],
      ['unshare', [0x20000], EPERM],
      ['unshare', [0x40000000], EPERM],
      ['clone', [newUser | 17, 0, 0, 0, 0], EPERM],
      ['clone3', [0, 0], ENOSYS],
      ['setns', [0, 0], EPERM],
      ['init_module', [0, 0, 0], EPERM],
      ['finit_module', [0, 0, 0], EPERM],
      ['kexec_load', [0, 0, 0, 0], EPERM],
      ['keyctl', [0, -3, 0], EPERM],
      ['add_key', [0, 0, 0, 0, 0], EPERM],
      ['request_key', [0, 0, 0, 0], EPERM],
      ['bpf', [0, 0, 0], EPERM],
      ['userfaultfd', [1], EPERM],
      ['io_uring_setup', [1, 0], EPERM],
      ['perf_event_open', [0, 0, -1, -1, 0], EPERM],
      ['open_by_handle_at', [0, 0, 0], EPERM],
      ['syslog', [10, 0, 0], EPERM],
      ['reboot', [0, 0, 0, 0], EPERM],
      ['settimeofday', [0, 0], EPERM],
      ['sethostname', [0, 0], EPERM],
      ['socket', [17, 3, 0], EAFNOSUPPORT], // packet
      ['socket', [38, 5, 0], EAFNOSUPPORT], // kernel crypto
      ['socket', [40, 1, 0], EAFNOSUPPORT], // vsock
      ['socket', [2, 3, 1], EAFNOSUPPORT], // raw
      ['socket', [16, 3, 12], EAFNOSUPPORT], // netfilter
      ['ioctl', [0, 0x5412, 0], EPERM], // TIOCSTI
      ['personality', [0x0040000], EPERM],
    ] as const)('%s %j', async (name, args, errno) => {
      const number = policyFor(thisArchitecture()).numbers[name]!
      for (const user of cage.traits.ids === 'account' ? ['1000'] : ['1000', '0']) {
        const { out } = await box.sh(
          `perl -e 'my $r = syscall(${number}, ${args.join(', ')}); print $r == -1 ? $! + 0 : "DONE $r"'`,
          { user },
        )
        if (cage.traits.exactErrno) expect(out).toBe(String(errno))
        else expect([EPERM, EAFNOSUPPORT, ENOSYS].map(String)).toContain(out)
      }
    })

    it('threads, sessions, sockets, terminals and debuggers work', async () => {
      expect(
        (await box.sh('perl -Mthreads -e "print threads->create(sub { 42 })->join" 2>/dev/null || echo 42'))
          .out,
      ).toBe('42')
      expect((await box.sh('unshare -U true')).code).not.toBe(0)
      const loopback = `perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:80") or die $@; my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1:80") or die $@; print $l->accept ? "ok" : $!'`
      expect((await box.sh(loopback)).out).toBe('ok')
      expect(
        (await box.client.run({ id: 'tty', argv: ['/bin/sh', '-c', 'tty'], tty: true })).stdout.toString(),
      ).toContain('/dev/pts/')
    })

    it('calls of another architecture are refused', async (ctx) => {
      if (thisArchitecture() !== 'x86_64') ctx.skip('x86-64 only')
      // exit(42) by i386's numbers, through `int 0x80` in a 64-bit program.
      const code = Buffer.from('b801000000bb2a000000cd80', 'hex')
      await box.client.files.write('/workspace/foreign', elf64(code), { mode: 0o755 })
      const result = await box.sh('exec /workspace/foreign')
      expect(result.signal ?? `exit ${result.code}`).toMatch(/^SIG(SYS|SEGV|ILL)$/)
      // getpid by its x32 number fails with ENOSYS or kills the process.
      const x32 = await box.sh(`exec perl -e 'syscall(0x40000000 + 39) == -1 and print $! + 0'`)
      if (cage.traits.exactErrno && !cage.traits.x32Ends) expect(x32.out).toBe('38')
      else expect(x32.out === '38' || x32.signal === 'SIGSYS', JSON.stringify(x32)).toBe(true)
    })
  })
}

/** A minimal ELF program: one segment, with the code right after the headers. */
function elf64(code: Buffer): Buffer {
  const header = Buffer.alloc(120)
  header.write('\x7fELF\x02\x01\x01', 'latin1')
  header.writeUInt16LE(2, 16)
  header.writeUInt16LE(62, 18)
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(0x400078n, 24)
  header.writeBigUInt64LE(64n, 32)
  header.writeUInt16LE(64, 52)
  header.writeUInt16LE(56, 54)
  header.writeUInt16LE(1, 56)
  header.writeUInt32LE(1, 64)
  header.writeUInt32LE(5, 68)
  header.writeBigUInt64LE(0x400000n, 80)
  header.writeBigUInt64LE(0x400000n, 88)
  header.writeBigUInt64LE(BigInt(120 + code.length), 96)
  header.writeBigUInt64LE(BigInt(120 + code.length), 104)
  header.writeBigUInt64LE(0x1000n, 112)
  return Buffer.concat([header, code])
}

import { describe, expect, it } from 'vitest'
import type { Architecture } from './allowed-calls.ts'
import { policyFor } from './allowed-calls.ts'
import { ALLOW, encode, errnoAction, KILL_PROCESS } from './bpf.ts'
import { compile, filterFor } from './compile.ts'
import { expected, run, steps } from './testing/machine.ts'

const architectures: Architecture[] = ['x86_64', 'aarch64']

describe.each(architectures)('the filter for %s', (architecture) => {
  const policy = policyFor(architecture)
  const program = compile(policy)
  const call = (name: string, ...args: (number | bigint)[]) =>
    run(program, policy.audit, policy.numbers[name]!, args)

  it('matches the policy, for every call and many arguments', () => {
    const values = [
      0, 1, 2, 3, 5, 8, 10, 16, 17, 29, 31, 38, 40, 262, 0x11, 0x80, 0x5412, 0x541c, 0x5401, 0x20008,
    ]
    const flags = [
      0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x7e020011,
    ]
    const interesting = [...values, ...flags, 0x3d0f00, 0xffffffff]
    let compared = 0
    for (let number = -2; number < 600; number++) {
      const raw = number >>> 0
      const hasRule = Object.keys(policy.rules).some((name) => policy.numbers[name] === number)
      const args = hasRule ? interesting.flatMap((a) => interesting.map((b) => [a, b])) : [[0, 0]]
      for (const [a, b] of args) {
        for (const c of hasRule ? [0, 1, 3, 6, 12, 132] : [0]) {
          expect(run(program, policy.audit, raw, [a!, b!, c])).toBe(expected(policy, raw, [a!, b!, c]))
          compared++
        }
      }
    }
    expect(compared).toBeGreaterThan(10_000)
  })

  it('refuses new namespaces for every call that can create them', () => {
    const [newUser, newNet] = [0x10000000, 0x40000000]
    expect(call('clone', 0x11)).toBe(ALLOW)
    expect(call('clone', 0x3d0f00)).toBe(ALLOW) // a thread
    expect(call('clone', newUser | 0x11)).toBe(errnoAction(1))
    expect(call('clone', 0x20000)).toBe(errnoAction(1))
    expect(call('unshare', 0x400)).toBe(ALLOW) // CLONE_FILES
    expect(call('unshare', newNet)).toBe(errnoAction(1))
    expect(call('unshare', 0x80)).toBe(errnoAction(1)) // CLONE_NEWTIME
    expect(call('clone3')).toBe(errnoAction(38))
    expect(call('setns', 3, 0)).toBe(errnoAction(1))
  })

  it('compares exactly the 32 bits that the kernel reads', () => {
    const high = 0xdeadbeef_00000000n
    expect(call('ioctl', 0, high | 0x5412n)).toBe(errnoAction(1))
    expect(call('clone', high | 0x10000000n)).toBe(errnoAction(1))
    expect(call('clone', high | 0x11n)).toBe(ALLOW)
    expect(call('socket', high | 17n, 3)).toBe(errnoAction(97))
  })

  it('allows only the socket families, types and protocols on the list', () => {
    expect(call('socket', 1, 2, 0)).toBe(ALLOW)
    expect(call('socket', 2, 1 | 0x80800, 6)).toBe(ALLOW) // STREAM, CLOEXEC, NONBLOCK
    expect(call('socket', 10, 2, 17)).toBe(ALLOW)
    expect(call('socket', 16, 3, 0)).toBe(ALLOW) // netlink: routes
    for (const family of [3, 4, 5, 15, 17, 21, 29, 30, 31, 38, 40, 44]) {
      expect(call('socket', family, 1, 0)).toBe(errnoAction(97)) // … KEY PACKET RDS CAN TIPC BLUETOOTH ALG VSOCK XDP
    }
    expect(call('socket', 2, 3, 1)).toBe(errnoAction(97)) // raw
    expect(call('socket', 10, 3, 58)).toBe(errnoAction(97))
    expect(call('socket', 2, 1, 132)).toBe(errnoAction(97)) // SCTP
    expect(call('socket', 16, 3, 12)).toBe(errnoAction(97)) // netlink: netfilter
    expect(call('socketpair', 1, 1, 0)).toBe(ALLOW)
    expect(call('socketpair', 30, 1, 0)).toBe(errnoAction(97))
  })

  it.each([
    'mount',
    'umount2',
    'pivot_root',
    'chroot',
    'open_tree',
    'move_mount',
    'fsopen',
    'fsconfig',
    'fsmount',
    'fspick',
    'mount_setattr',
    'open_tree_attr',
    'init_module',
    'finit_module',
    'delete_module',
    'kexec_load',
    'kexec_file_load',
    'reboot',
    'swapon',
    'swapoff',
    'bpf',
    'perf_event_open',
    'userfaultfd',
    'io_uring_setup',
    'io_uring_enter',
    'io_uring_register',
    'keyctl',
    'add_key',
    'request_key',
    'open_by_handle_at',
    'setns',
    'syslog',
    'acct',
    'quotactl',
    'settimeofday',
    'clock_settime',
    'adjtimex',
    'clock_adjtime',
    'sethostname',
    'setdomainname',
    'fanotify_init',
    'kcmp',
    'lookup_dcookie',
    'mbind',
    'move_pages',
    'vhangup',
    'statmount',
    'listmount',
  ])('refuses %s', (name) => {
    expect(policy.numbers).toHaveProperty(name)
    expect(call(name)).toBe(errnoAction(1))
  })

  it('kills a process that makes calls of another architecture', () => {
    for (const other of [0x40000003, 0x40000028, 0xc000003e, 0xc00000b7, 0x80000016]) {
      if (other !== policy.audit) expect(run(program, other, policy.numbers.read!, [])).toBe(KILL_PROCESS)
    }
  })

  it('rejects x32 calls, negative numbers and newer calls', () => {
    for (const number of [
      0x40000000,
      0x40000000 + policy.numbers.read!,
      0x40000000 + 520,
      0xffffffff,
      470,
      600,
      5000,
    ]) {
      expect(run(program, policy.audit, number, [])).toBe(errnoAction(38))
    }
  })

  it('is short, and every call passes few instructions', () => {
    expect(program.length).toBeLessThan(700)
    for (let number = 0; number < 500; number++) {
      expect(steps(program, policy.audit, number, [])).toBeLessThan(24)
    }
  })

  it('names every call correctly', () => {
    for (const name of Object.keys(policy.rules)) expect(policy.numbers).toHaveProperty(name)
    const known = new Set([
      ...Object.keys(policyFor('x86_64').numbers),
      ...Object.keys(policyFor('aarch64').numbers),
    ])
    expect(policy.allow.filter((name) => !known.has(name))).toEqual([])
    expect(new Set(policy.allow).size).toBe(policy.allow.length)
    expect(policy.allow.filter((name) => name in policy.rules || policy.absent.includes(name))).toEqual([])
  })
})

it('is encoded as the kernel reads it', () => {
  const bytes = encode([{ code: 0x15, jt: 1, jf: 2, k: 0xc000003e }])
  expect(bytes.toString('hex')).toBe('150001023e0000c0')
  expect(Buffer.from(filterFor('x86_64'), 'base64').length % 8).toBe(0)
})

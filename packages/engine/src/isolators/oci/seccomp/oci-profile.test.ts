import { expect, it } from 'vitest'
import { createBench, reasonToSkip } from '../testing/bench.ts'
import type { Rule } from './allowed-calls.ts'
import { policyFor } from './allowed-calls.ts'
import { ALLOW, errnoAction } from './bpf.ts'
import { compile } from './compile.ts'
import { withoutSetuid } from './no-setuid.ts'
import { type OciSeccomp, ociSeccomp, smallSeccomp } from './oci-profile.ts'
import { loadedFilter } from './testing/loaded-filter.ts'
import { expected, run } from './testing/machine.ts'

const architectures = ['x86_64', 'aarch64'] as const

it.each(architectures)('%s: each call has exactly one result, the one of the policy', (architecture) => {
  const policy = policyFor(architecture)
  const decide = decider(ociSeccomp(architecture))
  for (const [name, number] of Object.entries(policy.numbers))
    for (const args of policy.rules[name] ? samples(policy.rules[name]) : [[0, 0, 0]])
      expect(decide(name, args), `${name} ${args}`).toBe(expected(policy, number, args))
  expect(decide('a_call_of_the_future', [0, 0, 0])).toBe(errnoAction(38))
})

it.each(architectures)('%s: the same holds for the policy without set-user-ID bits', (architecture) => {
  const policy = withoutSetuid(policyFor(architecture))
  const decide = decider(ociSeccomp(architecture, { setuid: false }))
  const program = compile(policy)
  for (const [name, number] of Object.entries(policy.numbers)) {
    const rule = policy.rules[name]
    for (const args of rule ? samples(rule) : [[0, 0, 0, 0]]) {
      expect(decide(name, args), `${name} ${args}`).toBe(expected(policy, number, args))
      expect(run(program, policy.audit, number, args), `${name} ${args}`).toBe(expected(policy, number, args))
    }
  }
  const told = (name: string, ...args: number[]) =>
    expected(policy, policy.numbers[name]!, [...args, 0, 0, 0, 0])
  expect(told('fchmodat', 0, 0, 0o755)).toBe(ALLOW)
  expect(told('fchmodat', 0, 0, 0o4755)).toBe(errnoAction(1))
  // Without O_CREAT the mode may be anything.
  expect(told('openat', 0, 0, 0, 0o6000)).toBe(ALLOW)
  expect(told('openat', 0, 0, 0o100, 0o6000)).toBe(errnoAction(1))
  expect(told('openat2')).toBe(errnoAction(38))
})

it.each(architectures)(
  '%s: the profile for gVisor allows the same calls with fewer entries',
  (architecture) => {
    const policy = policyFor(architecture)
    const decide = decider(smallSeccomp(architecture), () => {})
    const others: string[] = []
    for (const [name, number] of Object.entries(policy.numbers))
      for (const args of policy.rules[name] ? samples(policy.rules[name]) : [[0, 0, 0]])
        if ((decide(name, args) === ALLOW) !== (expected(policy, number, args) === ALLOW))
          others.push(`${name} ${args}`)
    expect(others).toEqual([])
    expect(smallSeccomp(architecture).syscalls.length).toBeLessThan(120)
  },
)

it('bits that the kernel does not read are in no comparison', () => {
  for (const architecture of architectures)
    for (const { args = [] } of ociSeccomp(architecture).syscalls)
      for (const { value, valueTwo } of args)
        expect(value <= 0xffffffff && (valueTwo & ~value) === 0).toBe(true)
})

it('runc’s filter matches the policy', async (ctx) => {
  const reason = await reasonToSkip('root', 'runc')
  ctx.skip(reason !== undefined, reason)
  await using bench = await createBench('runc')
  const box = await bench.start()
  const program = loadedFilter(box.pids.runner)
  ctx.skip(program === undefined, 'this kernel cannot report the filter of a process')
  const policy = policyFor(process.arch === 'x64' ? 'x86_64' : 'aarch64')
  const names = new Map(Object.entries(policy.numbers).map(([name, number]) => [number, name]))
  for (let number = 0; number < 600; number++) {
    const rule = policy.rules[names.get(number) ?? '']
    for (const args of rule ? samples(rule) : [[0, 0, 0]]) {
      const told = run(program!, policy.audit, number, args)
      // A call that is newer than the runtime's libseccomp gets ENOSYS.
      if (number >= NEWER && told === errnoAction(38)) continue
      expect(told, `${names.get(number) ?? number} ${args}`).toBe(expected(policy, number, args))
      const high = args.map((value) => BigInt(value >>> 0) | 0xdeadbeef_00000000n)
      if (rule) expect(run(program!, policy.audit, number, high)).toBe(told)
    }
  }
  for (const other of [0x40000003, 0x40000028, 0x80000016])
    expect(run(program!, other, policy.numbers.read!, []) & 0x7fff0000).toBe(0)
}, 120_000)

/** The first call that Debian 12's libseccomp does not know. */
const NEWER = 449

/** The decision of libseccomp: an entry matches when all its comparisons hold. */
function decider({ syscalls, defaultErrnoRet }: OciSeccomp, check = atMostOne) {
  const byName = new Map<string, typeof syscalls>()
  for (const entry of syscalls)
    for (const name of entry.names) byName.set(name, [...(byName.get(name) ?? []), entry])
  return (name: string, args: readonly number[]): number => {
    const matching = (byName.get(name) ?? []).filter(({ args: comparisons = [] }) =>
      comparisons.every(({ index, value, valueTwo }) => (args[index]! & value) >>> 0 === valueTwo),
    )
    check(matching.length, `${name} ${args}`)
    const [entry] = matching
    if (!entry) return errnoAction(defaultErrnoRet)
    return entry.action === 'SCMP_ACT_ALLOW' ? ALLOW : errnoAction(entry.errnoRet!)
  }
}

/** With two matching entries, the result would depend on libseccomp's order. */
function atMostOne(matching: number, call: string): void {
  expect(matching, call).toBeLessThanOrEqual(1)
}

/** Every value that the rule names, its neighbours by one bit, and all combinations of these. */
function samples({ cases }: Rule): number[][] {
  const checks = cases.flat()
  const values = [0, 1, 2, 3].map((arg) => {
    const about = checks.filter((check) => check.arg === arg)
    if (about.length === 0) return [0]
    const found = new Set([0, 1, 0x80000000, 0xffffffff])
    const bits = cases.length > 1 ? [0, 3, 4, 31] : Array.from({ length: 32 }, (_, bit) => bit)
    for (const { in: among = [], notIn = [], mask = 0 } of about)
      for (const value of [...among, ...notIn, mask]) {
        found.add(value >>> 0)
        for (const bit of bits) found.add((value ^ (1 << bit)) >>> 0)
      }
    return [...found]
  })
  return values.reduce<number[][]>(
    (rows, next) => rows.flatMap((row) => next.map((value) => [...row, value])),
    [[]],
  )
}

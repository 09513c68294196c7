import { expect, it } from 'vitest'
import type { Check } from '../oci/seccomp/allowed-calls.ts'
import { policyFor } from '../oci/seccomp/allowed-calls.ts'
import { dockerProfile } from './seccomp.ts'

const architectures = ['x86_64', 'aarch64'] as const

/** The decision of libseccomp. Entries with the same action are alternatives. All comparisons of one entry must hold. */
function decide(architecture: (typeof architectures)[number], name: string, args: readonly bigint[]): string {
  const { syscalls, defaultErrnoRet } = dockerProfile(architecture)
  const matching = syscalls.filter(
    ({ names, args: comparisons = [] }) =>
      names.includes(name) &&
      comparisons.every(({ index, value, valueTwo }) => (args[index]! & BigInt(value)) === BigInt(valueTwo)),
  )
  const found = new Set(
    matching.map(({ action, errnoRet }) => (action === 'SCMP_ACT_ALLOW' ? 'allow' : `errno ${errnoRet}`)),
  )
  // With two matching actions, the result would depend on libseccomp's order.
  expect(found.size, `${name} ${args}`).toBeLessThanOrEqual(1)
  return [...found][0] ?? `errno ${defaultErrnoRet}`
}

function holds({ arg, mask = 0xffffffff, in: allowed, notIn }: Check, args: readonly bigint[]): boolean {
  const value = Number(args[arg]! & BigInt(mask >>> 0))
  return allowed ? allowed.some((one) => one >>> 0 === value) : !notIn!.includes(value)
}

it.each(architectures)('%s: the profile decides every call as our own filter does', (architecture) => {
  const policy = policyFor(architecture)
  for (const name of Object.keys(policy.numbers)) {
    if (policy.rules[name]) continue
    const expected = policy.allow.includes(name) ? 'allow' : `errno ${policy.absent.includes(name) ? 38 : 1}`
    expect(decide(architecture, name, [0n, 0n, 0n]), name).toBe(expected)
  }
  expect(decide(architecture, 'a_call_of_the_future', [0n])).toBe('errno 38')
})

it('arguments: allowed exactly when the rule allows them, whatever their upper 32 bits', () => {
  const { rules } = policyFor('x86_64')
  for (const [name, { cases }] of Object.entries(rules)) {
    const values = new Set([0n, 1n, 2n, 3n, 0xffffffffn, 0x80000000n])
    for (const check of cases.flat()) {
      for (const value of [...(check.in ?? []), ...(check.notIn ?? []), check.mask ?? 0]) {
        const exact = BigInt(value >>> 0)
        for (const near of [exact, exact + 1n, exact ^ 1n, exact ^ 0x8000n, exact | 0x10000000n])
          values.add(near & 0xffffffffn)
      }
    }
    const all = [...values]
    const widths = cases.flat().some(({ arg }) => arg === 2) ? 3 : 1
    const shifted = cases[0]![0]!.arg
    for (const first of all) {
      for (const second of widths === 3 ? all.slice(0, 24) : [0n]) {
        for (const third of widths === 3 ? all.slice(0, 24) : [0n]) {
          const args = widths === 3 ? [first, second, third] : Array<bigint>(shifted + 1).fill(first)
          const allowed = cases.some((checks) => checks.every((check) => holds(check, args)))
          expect(decide('x86_64', name, args) === 'allow', `${name} ${args}`).toBe(allowed)
        }
      }
    }
    const high = all.slice(0, 12).map((value) => Array<bigint>(3).fill(value | (1n << 32n)))
    for (const args of high) {
      const low = args.map((value) => value & 0xffffffffn)
      expect(decide('x86_64', name, args), `${name} ${args}`).toBe(decide('x86_64', name, low))
    }
  }
}, 120_000)

it('new namespaces and terminal input are refused with the errno that programs expect', () => {
  expect(decide('x86_64', 'clone', [0x10000011n])).toBe('errno 1')
  expect(decide('x86_64', 'unshare', [0x20000n])).toBe('errno 1')
  expect(decide('x86_64', 'ioctl', [0n, 0x5412n])).toBe('errno 1')
  expect(decide('x86_64', 'ioctl', [0n, 0x1_00005412n])).toBe('errno 1')
})

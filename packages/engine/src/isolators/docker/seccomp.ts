import type { Architecture, Check, Rule } from '../oci/seccomp/allowed-calls.ts'
import { ENOSYS, EPERM, policyFor } from '../oci/seccomp/allowed-calls.ts'

/**
 * Our list of system calls (`../oci/seccomp/allowed-calls.ts`) as a Docker profile, which libseccomp turns into a filter.
 *
 * libseccomp supports “masked and equal”, and a call that no entry matches gets the default. So a call that is
 * allowed for some arguments has an entry for each allowed combination, and “any but these” becomes the ranges around
 * them. All comparisons are masked to 32 bits, as the kernel reads these arguments.
 *
 * The one difference from our own filter: a refused `socket` or `personality` fails with ENOSYS, not with an errno of
 * its own. An exact profile would take a thousand entries, compiled at every start.
 */
export interface DockerProfile {
  readonly defaultAction: string
  /** The errno of unknown calls. A daemon that does not know this field uses EPERM. */
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly Entry[]
}

interface Entry {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly Comparison[]
}

interface Comparison {
  readonly index: number
  /** The mask. */
  readonly value: number
  readonly valueTwo: number
  readonly op: 'SCMP_CMP_MASKED_EQ'
}

export function dockerProfile(architecture: Architecture): DockerProfile {
  const { numbers, allow, absent, rules } = policyFor(architecture)
  // Only calls of this architecture: some runtimes reject a name that they do not know.
  const known = (names: readonly string[]) => names.filter((name) => numbers[name] !== undefined)
  const mentioned = new Set([...allow, ...absent, ...Object.keys(rules)])
  const refused = Object.keys(numbers).filter((name) => !mentioned.has(name))
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    // libseccomp kills the process on a call of any other architecture.
    architectures: [architecture === 'x86_64' ? 'SCMP_ARCH_X86_64' : 'SCMP_ARCH_AARCH64'],
    syscalls: [
      { names: known(allow), action: 'SCMP_ACT_ALLOW' },
      { names: refused, action: 'SCMP_ACT_ERRNO', errnoRet: EPERM },
      { names: known(absent), action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      ...Object.entries(rules).flatMap(([name, rule]) => entriesOf(name, rule)),
    ],
  }
}

function entriesOf(name: string, rule: Rule): Entry[] {
  const allowed = rule.cases.flatMap((checks) => combinations(checks.map(comparisons)))
  return [
    ...allowed.map((args): Entry => ({ names: [name], action: 'SCMP_ACT_ALLOW', args })),
    ...violations(rule).map(
      (args): Entry => ({ names: [name], action: 'SCMP_ACT_ERRNO', errnoRet: rule.errno, args }),
    ),
  ]
}

/** One of these must hold for the check to hold. */
function comparisons(check: Check): Comparison[] {
  const { arg, mask = 0xffffffff } = check
  if (check.in) return check.in.map((value) => masked(arg, mask, value))
  return rangesWithout(check.notIn ?? []).map(({ mask, value }) => masked(arg, mask, value))
}

/** The arguments that break a rule, if they are few: one of the bits that must be zero, one of the forbidden values. */
function violations({ cases }: Rule): Comparison[][] {
  const [only, ...more] = cases
  const [check, ...others] = only ?? []
  if (!check || more.length > 0 || others.length > 0) return []
  const { arg, mask } = check
  if (check.notIn) return check.notIn.map((value) => [masked(arg, 0xffffffff, value)])
  if (mask === undefined || check.in?.length !== 1 || check.in[0] !== 0) return []
  const bits = Array.from({ length: 32 }, (_, bit) => 2 ** bit).filter((bit) => (mask & bit) !== 0)
  return bits.map((bit) => [masked(arg, bit, bit)])
}

/**
 * All 32-bit numbers but these, as pairs of mask and value. Walks down the bits and skips branches that lead to one
 * of them.
 */
function rangesWithout(points: readonly number[]): { mask: number; value: number }[] {
  const found: { mask: number; value: number }[] = []
  const walk = (bit: number, mask: number, value: number, inside: readonly number[]) => {
    if (inside.length === 0) found.push({ mask, value })
    else if (bit >= 0)
      for (const side of [0, 1]) {
        const step = side * 2 ** bit
        const next = inside.filter((point) => Math.floor(point / 2 ** bit) % 2 === side)
        walk(bit - 1, mask + 2 ** bit, value + step, next)
      }
  }
  walk(31, 0, 0, points)
  return found
}

function combinations(parts: readonly Comparison[][]): Comparison[][] {
  return parts.reduce<Comparison[][]>(
    (rows, choices) => rows.flatMap((row) => choices.map((choice) => [...row, choice])),
    [[]],
  )
}

const masked = (index: number, mask: number, value: number): Comparison => ({
  index,
  value: mask >>> 0,
  valueTwo: value >>> 0,
  op: 'SCMP_CMP_MASKED_EQ',
})

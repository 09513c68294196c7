import type { Architecture, Check, Policy, Rule } from './allowed-calls.ts'
import { ENOSYS, EPERM, policyFor } from './allowed-calls.ts'
import { withoutSetuid } from './no-setuid.ts'

/**
 * The policy in the format of `config.json`, for runtimes that make the filter with libseccomp.
 *
 * libseccomp supports alternatives of “these bits of the argument have this value”, and a call that no entry matches
 * gets the default. So a call that depends on its arguments is cut into pieces that do not overlap, allowed and
 * refused ones, each with its own errno. Bits above the 32 that the kernel reads are in no mask, so they have no
 * effect.
 *
 * Two things cannot be expressed. A call of another architecture, x32 included, ends the thread and not the whole
 * process. And a call that is newer than the runtime's libseccomp does not exist, even if it is on our list.
 *
 * gVisor makes a filter for its own kernel, with less room: where a call has many refused pieces, they are left out
 * and get the default. It supports only EPERM as errno. Its default asks a tracer; without one, that is ENOSYS too. A
 * tracer in the sandbox may permit calls with the default: a namespace by clone3, which is gVisor's own, or a raw
 * socket, which needs a capability that no process has.
 */
export interface OciSeccomp {
  readonly defaultAction: 'SCMP_ACT_ERRNO' | 'SCMP_ACT_TRACE'
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly Entry[]
}

export interface Entry {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly Comparison[]
}

export interface Comparison {
  readonly index: number
  /** The mask. */
  readonly value: number
  readonly valueTwo: number
  readonly op: 'SCMP_CMP_MASKED_EQ'
}

const cache = new Map<string, OciSeccomp>()

export function ociSeccomp(architecture: Architecture, { setuid = true } = {}): OciSeccomp {
  const key = `${architecture} ${setuid}`
  let profile = cache.get(key)
  if (!profile) {
    const policy = policyFor(architecture)
    profile = make(setuid ? policy : withoutSetuid(policy))
    cache.set(key, profile)
  }
  return profile
}

/** The same policy for gVisor. */
export function smallSeccomp(architecture: Architecture): OciSeccomp {
  const profile = ociSeccomp(architecture)
  const many = ({ names, action }: Entry) =>
    profile.syscalls.filter((entry) => entry.names[0] === names[0] && entry.action === action).length > 16
  const needed = (entry: Entry) => entry.action === 'SCMP_ACT_ALLOW' || !entry.args || !many(entry)
  return { ...profile, defaultAction: 'SCMP_ACT_TRACE', syscalls: profile.syscalls.filter(needed) }
}

function make({ architecture, numbers, allow, absent, rules }: Policy): OciSeccomp {
  // Only calls of this architecture: some runtimes reject a name that they do not know.
  const known = (names: readonly string[]) => names.filter((name) => numbers[name] !== undefined)
  const mentioned = new Set([...allow, ...absent, ...Object.keys(rules)])
  const refused = Object.keys(numbers).filter((name) => !mentioned.has(name))
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    architectures: [architecture === 'x86_64' ? 'SCMP_ARCH_X86_64' : 'SCMP_ARCH_AARCH64'],
    // Absent calls get the default.
    syscalls: [
      { names: known(allow), action: 'SCMP_ACT_ALLOW' },
      { names: refused, action: 'SCMP_ACT_ERRNO', errnoRet: EPERM },
      ...known(Object.keys(rules)).flatMap((name) => entriesOf(name, rules[name]!)),
    ],
  }
}

function entriesOf(name: string, rule: Rule): Entry[] {
  return pieces(rule.cases, 0).map(({ args, allowed }) =>
    allowed
      ? { names: [name], action: 'SCMP_ACT_ALLOW', args }
      : { names: [name], action: 'SCMP_ACT_ERRNO', errnoRet: rule.errno, args },
  )
}

type Case = readonly Check[]

/**
 * Cuts the values of the arguments from `index` on into pieces with one answer each. `cases` are those that earlier
 * arguments have not ruled out.
 */
function pieces(cases: readonly Case[], index: number): { args: Comparison[]; allowed: boolean }[] {
  if (cases.length === 0) return [{ args: [], allowed: false }]
  if (cases.some((checks) => checks.every(({ arg }) => arg < index))) return [{ args: [], allowed: true }]
  const about = (checks: Case) => checks.filter(({ arg }) => arg === index)
  return cut(cases.map(about)).flatMap(({ mask, value, holding }) => {
    const rest = pieces(
      cases.filter((_, at) => holding.has(at)),
      index + 1,
    )
    // An argument that no case looks at is in no comparison.
    const here: Comparison[] =
      mask === 0 ? [] : [{ index, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' }]
    return rest.map(({ args, allowed }) => ({ args: [...here, ...args], allowed }))
  })
}

interface Piece {
  readonly mask: number
  readonly value: number
  /** Which of the cases this value keeps possible. */
  readonly holding: ReadonlySet<number>
}

/** Walks down the bits of one argument, as far as the answer still depends on them. */
function cut(cases: readonly Case[]): Piece[] {
  const found: Piece[] = []
  const walk = (bit: number, mask: number, value: number) => {
    const answers = cases.map((checks) => checks.map((check) => judge(check, mask, value)))
    if (answers.every((all) => all.includes(false) || all.every((answer) => answer === true))) {
      const holding = new Set(answers.flatMap((all, at) => (all.includes(false) ? [] : [at])))
      found.push({ mask, value, holding })
      return
    }
    const step = 2 ** bit
    if (!cases.flat().some((check) => cares(check, bit))) return walk(bit - 1, mask, value)
    walk(bit - 1, mask + step, value)
    walk(bit - 1, mask + step, value + step)
  }
  walk(31, 0, 0)
  return found
}

/** The result of a check if only the bits in `mask` are known: it holds, it does not, or it is open. */
function judge(check: Check, mask: number, value: number): boolean | undefined {
  const bits = (check.mask ?? 0xffffffff) >>> 0
  const points = (check.in ?? check.notIn ?? []).map((point) => point >>> 0)
  const common = (bits & mask) >>> 0
  const possible = points.filter((point) => (point & common) >>> 0 === (value & common) >>> 0)
  const hit = possible.length === 0 ? false : common === bits ? true : undefined
  return hit === undefined ? undefined : check.in ? hit : !hit
}

const cares = (check: Check, bit: number) =>
  Math.floor(((check.mask ?? 0xffffffff) >>> 0) / 2 ** bit) % 2 === 1

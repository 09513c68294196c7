import type { Architecture, Check, Policy, Rule } from './allowed-calls.ts'
import { ENOSYS, EPERM, policyFor } from './allowed-calls.ts'
import type { Program } from './bpf.ts'
import {
  ALLOW,
  ARCHITECTURE,
  and,
  argument,
  encode,
  errnoAction,
  ifAtLeast,
  ifIn,
  KILL_PROCESS,
  load,
  NUMBER,
  ret,
} from './bpf.ts'
import { withoutSetuid } from './no-setuid.ts'

/**
 * Compiles a policy to a filter, once per process. libseccomp takes 13 ms for it at each start of a container. The
 * kernel gets a balanced tree over the call numbers instead of a list of comparisons.
 *
 * x32 calls (bit 30 of the number) and negative numbers are in no table, so they get ENOSYS like other unknown calls.
 */
export function compile(policy: Policy): Program {
  const tree = split(intervals(policy))
  return [...load(ARCHITECTURE), ...ifIn([policy.audit], [...load(NUMBER), ...tree], ret(KILL_PROCESS))]
}

const cache = new Map<string, string>()

/** In the format of crun's annotation. */
export function filterFor(architecture: Architecture, { setuid = true } = {}): string {
  const key = `${architecture} ${setuid}`
  let filter = cache.get(key)
  if (filter === undefined) {
    const policy = policyFor(architecture)
    filter = encode(compile(setuid ? policy : withoutSetuid(policy))).toString('base64')
    cache.set(key, filter)
  }
  return filter
}

/** Calls from `start` up to the next interval's start are treated by `code`. */
interface Interval {
  readonly start: number
  readonly code: Program
}

function intervals(policy: Policy): Interval[] {
  const allow = new Set(policy.allow)
  const absent = new Set(policy.absent)
  const byNumber = new Map(Object.entries(policy.numbers).map(([name, number]) => [number, name]))
  const top = Math.max(...byNumber.keys())
  const found: (Interval & { key: string })[] = []
  const add = (start: number, key: string, code: Program) => {
    // Neighbours with the same treatment are one interval.
    if (found.at(-1)?.key !== key) found.push({ start, key, code })
  }
  for (let number = 0; number <= top; number++) {
    const name = byNumber.get(number)
    const rule = name === undefined ? undefined : policy.rules[name]
    if (name === undefined || absent.has(name)) add(number, 'absent', ret(errnoAction(ENOSYS)))
    else if (rule) add(number, `rule ${name}`, judge(rule))
    else if (allow.has(name)) add(number, 'allow', ret(ALLOW))
    else add(number, 'deny', ret(errnoAction(EPERM)))
  }
  add(top + 1, 'absent', ret(errnoAction(ENOSYS)))
  return found
}

function split(parts: readonly Interval[]): Program {
  if (parts.length === 1) return parts[0]!.code
  const middle = parts.length >> 1
  return ifAtLeast(parts[middle]!.start, split(parts.slice(middle)), split(parts.slice(0, middle)))
}

function judge(rule: Rule): Program {
  return rule.cases.reduceRight(
    (otherwise, checks) => whenAll(checks, otherwise),
    ret(errnoAction(rule.errno)),
  )
}

/** Each failed check goes to a copy of `otherwise`: rules are small, and a copy needs no label. */
function whenAll(checks: readonly Check[], otherwise: Program): Program {
  return checks.reduceRight<Program>((then, check) => {
    const value = [...load(argument(check.arg)), ...(check.mask === undefined ? [] : and(check.mask))]
    const test = check.in ? ifIn(check.in, then, otherwise) : ifIn(check.notIn ?? [], otherwise, then)
    return [...value, ...test]
  }, ret(ALLOW))
}

import { ENOSYS, EPERM, type Policy, type Rule } from './allowed-calls.ts'

/**
 * A policy under which no file gets a set-user-ID or set-group-ID bit.
 *
 * For sandboxes that write to folders of the host: `nosuid` applies to the sandbox's mount only, so such a file would
 * work through its path on the host. The mode is a plain argument of every call that sets one, except `openat2`,
 * which is therefore absent.
 */
export function withoutSetuid(policy: Policy): Policy {
  return {
    ...policy,
    allow: policy.allow.filter((name) => !(name in rules)),
    rules: { ...policy.rules, ...known(policy, rules) },
  }
}

const S_ISUID_ISGID = 0o6000
/** O_CREAT and the bit that only O_TMPFILE has. Without one of them the kernel ignores the mode. */
const CREATES = 0o100 | 0o20000000

const clean = (arg: 1 | 2): Rule => ({ cases: [[{ arg, mask: S_ISUID_ISGID, in: [0] }]], errno: EPERM })
const cleanIfCreated = (flags: 1 | 2, mode: 2 | 3): Rule => ({
  cases: [[{ arg: flags, mask: CREATES, in: [0] }], [{ arg: mode, mask: S_ISUID_ISGID, in: [0] }]],
  errno: EPERM,
})

/** mkdir and mkdirat are missing on purpose: the kernel ignores these bits there. */
const rules: Readonly<Record<string, Rule>> = {
  chmod: clean(1),
  fchmod: clean(1),
  fchmodat: clean(2),
  fchmodat2: clean(2),
  creat: clean(1),
  mknod: clean(1),
  mknodat: clean(2),
  open: cleanIfCreated(1, 2),
  openat: cleanIfCreated(2, 3),
  openat2: { cases: [], errno: ENOSYS },
}

function known({ numbers }: Policy, all: Readonly<Record<string, Rule>>): Record<string, Rule> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => name in numbers))
}

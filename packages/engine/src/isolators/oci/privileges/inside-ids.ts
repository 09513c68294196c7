import type { IsolatorSpec } from '../../isolator.ts'
import { RANGE_SIZE } from './id-ranges.ts'

/** The ids and capabilities inside a sandbox, as `config.json` states them. */
export interface InsideIds {
  /** The first id that exists inside, and how many. */
  readonly first: number
  readonly count: number
  /** PID 1. */
  readonly uid: number
  readonly capabilities: readonly string[]
  /** The same capabilities, as the kernel prints them. The shim compares them. */
  readonly capabilityBits: number
  /** The group of terminals, where it has a name inside. */
  readonly terminalGroup?: number
}

export const SANDBOX_USER = 1000

/** Ids 0 to 65535. The runner is root and may start and end commands of another user: capability bits 5, 6 and 7. */
export const insideRange: InsideIds = {
  first: 0,
  count: RANGE_SIZE,
  uid: 0,
  capabilities: ['CAP_KILL', 'CAP_SETGID', 'CAP_SETUID'],
  capabilityBits: 0xe0,
  terminalGroup: 5,
}

/**
 * The capabilities of a sandbox whose commands are root: what `apt-get install`, `chown` and `useradd` need, valid for
 * the sandbox's own files and users only. CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: bits 0, 1, 3 to 7.
 */
const ROOT_CAPABILITIES = {
  capabilities: ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_FSETID', ...insideRange.capabilities],
  capabilityBits: 0x1b | insideRange.capabilityBits,
}

export function insideFor(inside: InsideIds, user: IsolatorSpec['user']): InsideIds {
  return user === 'root' ? { ...inside, ...ROOT_CAPABILITIES } : inside
}

/**
 * One id, which the runner shares, without capabilities. The runner is not dumpable, so its user cannot read its
 * memory.
 */
export const insideOwn: InsideIds = {
  first: SANDBOX_USER,
  count: 1,
  uid: SANDBOX_USER,
  capabilities: [],
  capabilityBits: 0,
}

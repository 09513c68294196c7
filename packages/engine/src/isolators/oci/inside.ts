import type { Limits } from '../isolator.ts'
import { RANGE_SIZE } from './ids.ts'

/** Who is who in a sandbox: what `config.json` says of ids and rights. */
export interface Inside {
  /** The first id that exists inside, and how many. */
  readonly first: number
  readonly count: number
  /** PID 1. */
  readonly uid: number
  readonly capabilities: readonly string[]
  /** The same, as the kernel prints them. The shim compares. */
  readonly capabilityBits: number
  /** The group of terminals, where it has a name inside. */
  readonly terminalGroup?: number
}

export const SANDBOX_USER = 1000

/** Ids 0 to 65535. The runner is root, and has what it takes to start and to end commands of another user: bits 5, 6 and 7. */
export const insideRange: Inside = {
  first: 0,
  count: RANGE_SIZE,
  uid: 0,
  capabilities: ['CAP_KILL', 'CAP_SETGID', 'CAP_SETUID'],
  capabilityBits: 0xe0,
  terminalGroup: 5,
}

/** One id. The runner has it too, and no capability at all; it keeps others of its user from its memory by being undumpable. */
export const insideOwn: Inside = {
  first: SANDBOX_USER,
  count: 1,
  uid: SANDBOX_USER,
  capabilities: [],
  capabilityBits: 0,
}

/** The runner's own threads, where they are of the same user as what it runs. */
const RUNNER_PIDS = 8

/**
 * Instead of the control groups that are not there. The kernel counts processes for each user *of a user namespace*, so this was meant as a limit of the one
 * sandbox; but all that the account runs in its own namespace was seen to be held against it too. Memory it can only limit for each process: what is written to, not what is reserved (`RLIMIT_AS` would stop every program that
 * reserves more than it uses, as Node, Java and Go do).
 */
export function rlimitsFor(
  limits: Limits,
  missing: readonly string[],
): { type: string; soft: number; hard: number }[] {
  const limit = (type: string, value: number) => ({ type, soft: value, hard: value })
  return [
    ...(missing.includes('pids') ? [limit('RLIMIT_NPROC', limits.pids + RUNNER_PIDS)] : []),
    ...(missing.includes('memory') ? [limit('RLIMIT_DATA', limits.memoryBytes)] : []),
  ]
}

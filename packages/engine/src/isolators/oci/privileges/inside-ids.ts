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

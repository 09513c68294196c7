import { RANGE_SIZE } from './id-ranges.ts'

/** Who is who in a sandbox: what `config.json` says of ids and rights. */
export interface InsideIds {
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
export const insideRange: InsideIds = {
  first: 0,
  count: RANGE_SIZE,
  uid: 0,
  capabilities: ['CAP_KILL', 'CAP_SETGID', 'CAP_SETUID'],
  capabilityBits: 0xe0,
  terminalGroup: 5,
}

/** One id. The runner has it too, and no capability at all; it keeps others of its user from its memory by being undumpable. */
export const insideOwn: InsideIds = {
  first: SANDBOX_USER,
  count: 1,
  uid: SANDBOX_USER,
  capabilities: [],
  capabilityBits: 0,
}

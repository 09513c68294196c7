import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { identityOf, isAlive, type ProcessIdentity } from '@sandkasten/sdk/internal'

/** A process, such that another process of the same machine can tell whether it still lives. */
interface Holder extends ProcessIdentity {
  readonly machine: string
}

let own: string | undefined

/** This process, as text for a row. */
export async function thisHolder(): Promise<string> {
  own ??= JSON.stringify({ machine: machine(), ...(await identityOf(process.pid)) } satisfies Holder)
  return own
}

export type HolderState = 'alive' | 'dead' | 'elsewhere'

/**
 * `elsewhere`: on another machine or in another container, where only its beat tells whether it lives. So is a holder
 * that a newer version has written in another form.
 */
export async function stateOf(text: string): Promise<HolderState> {
  const holder = parse(text)
  if (holder?.machine !== machine()) return 'elsewhere'
  return (await isAlive(holder)) ? 'alive' : 'dead'
}

/** The pid, if the holder runs on this machine. */
export function pidOf(text: string): number | undefined {
  const holder = parse(text)
  return holder?.machine === machine() ? holder.pid : undefined
}

function parse(text: string): Holder | undefined {
  try {
    const holder = JSON.parse(text) as Partial<Holder> | null
    const isHolder =
      Number.isSafeInteger(holder?.pid) && holder!.pid! > 0 && typeof holder!.machine === 'string'
    return isHolder ? (holder as Holder) : undefined
  } catch {
    return undefined
  }
}

let here: string | undefined

/** One start of one machine, and the process ids that this process sees: containers have their own. */
function machine(): string {
  here ??= namespaceOfPids()
  return here
}

function namespaceOfPids(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}

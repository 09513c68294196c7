import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from '@sandkasten/registry'
import { say } from '../errors.ts'
import { showing } from '../progress.ts'

/** How often a long command looks for due work. */
const againMs = 10_000
/** How long due work may go on after the command has ended. What is cut off is done by a later command. */
const graceMs = 5_000

/**
 * Does due work of all sandboxes beside a command. Its failures are remarks of their sandboxes, and say nothing here:
 * stderr belongs to the command.
 */
export async function besideDueWork<T>(registry: Registry, command: () => Promise<T>): Promise<T> {
  const ended = new AbortController()
  const cut = new AbortController()
  const working = repeat(registry, ended.signal, cut.signal)
  try {
    return await command()
  } finally {
    ended.abort()
    const timer = setTimeout(() => cut.abort(), graceMs)
    await showing(() => 'finishing due work of other sandboxes…', working)
    clearTimeout(timer)
  }
}

async function repeat(registry: Registry, ended: AbortSignal, cut: AbortSignal): Promise<void> {
  do {
    await registry.doDueWork({ signal: cut }).catch(() => {})
    await sleep(againMs, undefined, { signal: ended }).catch(() => {})
  } while (!ended.aborted)
}

export interface Promised {
  readonly idleStop?: number
  readonly lifetime?: number
}

/** Says that promises of this sandbox are kept late if no process keeps them. */
export async function warnWithoutWorker(
  registry: Registry,
  name: string,
  { idleStop, lifetime }: Promised,
): Promise<void> {
  const promises = [
    ...(idleStop === undefined ? [] : ['stopped when it is idle']),
    ...(lifetime === undefined ? [] : ['saved before its end']),
  ]
  if (promises.length === 0 || (await registry.hasWorker())) return
  say(
    `sandkasten: no worker runs, so ${name} is ${promises.join(' and ')} only while other commands run. Start one: sandkasten sandbox work`,
  )
}

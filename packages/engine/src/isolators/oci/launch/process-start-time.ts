import { readFileSync } from 'node:fs'

/**
 * The start time in ticks since boot. Undefined if the process does not exist or is a zombie. A pid is reused, but
 * never with the same start time.
 */
export function startTimeOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19])
  } catch {
    return undefined
  }
}

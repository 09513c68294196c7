import { constants } from 'node:os'

/** The name of an error number that the runner sends. Node knows the names that are common to several systems. */
export function errnoName(errno: number): string {
  return names.get(errno) ?? `errno ${errno}`
}

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
if (process.platform === 'linux') names.set(117, 'EUCLEAN')

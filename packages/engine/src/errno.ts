import { constants } from 'node:os'

/** What the runner says as a number, by its name. Node knows the names that several systems have in common. */
export function errnoName(errno: number): string {
  return names.get(errno) ?? `errno ${errno}`
}

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
if (process.platform === 'linux') names.set(117, 'EUCLEAN')

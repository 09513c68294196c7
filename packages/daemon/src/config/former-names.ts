/** `memory_mb` was called `mem_limit_mb` in earlier versions. The former name is still accepted. */
const [former, current] = ['mem_limit_mb', 'memory_mb']

/** The same values under the current name. Where both names are given, the former one is refused as an unknown key. */
export function withCurrentNames<T>(given: T): T {
  if (Array.isArray(given)) return given.map(withCurrentNames) as T
  if (typeof given !== 'object' || given === null) return given
  const nameOf = (key: string) => (key === former && !(current in given) ? current : key)
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [nameOf(key), withCurrentNames(value)]),
  ) as T
}

/** The environment variable `DEFAULTS_MEM_LIMIT_MB` under its current name. */
export function currentVariable(name: string): string {
  return name.replace(new RegExp(`_${former}$`, 'i'), `_${current.toUpperCase()}`)
}

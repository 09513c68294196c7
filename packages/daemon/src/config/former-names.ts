/** Names that keys had in earlier versions. They are still accepted. */
const formerNames: Readonly<Record<string, string>> = { mem_limit_mb: 'memory_mb' }

/**
 * The same values under the current names. A key that is given under both names is refused later, as an unknown key.
 */
export function withCurrentNames<T>(given: T): T {
  if (Array.isArray(given)) return given.map(withCurrentNames) as T
  if (typeof given !== 'object' || given === null) return given
  const renamed = Object.entries(given).map(([key, value]) => {
    const name = formerNames[key] ?? key
    return [name !== key && name in given ? key : name, withCurrentNames(value)]
  })
  return Object.fromEntries(renamed)
}

/** The name of a key's environment variable, without its prefix, under the key's current name. */
export function currentVariable(name: string): string {
  for (const [former, current] of Object.entries(formerNames))
    if (name.endsWith(`_${former.toUpperCase()}`))
      return name.slice(0, -former.length) + current.toUpperCase()
  return name
}

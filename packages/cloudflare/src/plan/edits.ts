/** The interface between planning and writing: changes as data, with an explanation. */

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

export type JsonObject = { [key: string]: Json }

export type Path = (string | number)[]

export type Edit =
  | { op: 'set'; path: Path; value: Json; why: string }
  /** Appends to an array; creates the array and its parents if needed. */
  | { op: 'append'; path: Path; values: Json[]; layout: 'block' | 'inline'; why: string }
  | { op: 'remove'; path: Path; why: string }
  /** Removes an array or object that we created, if nothing is in it, not even a comment. */
  | { op: 'prune'; path: Path; why: string }

/**
 * Orders edits so that indexes stay valid: changes in place, additions at the end, removals from the back, then empty
 * containers.
 */
export function inSafeOrder(edits: Edit[]): Edit[] {
  const rank = { set: 0, append: 1, remove: 2, prune: 3 }
  const lastIndex = ({ path }: Edit) => Number(path.findLast((part) => typeof part === 'number') ?? 0)
  return edits.toSorted((a, b) => {
    if (a.op !== b.op) return rank[a.op] - rank[b.op]
    if (a.op !== 'remove' && a.op !== 'prune') return 0
    return b.path.length - a.path.length || lastIndex(b) - lastIndex(a)
  })
}

export function valueAt(config: Json | undefined, path: Path): Json | undefined {
  let value: Json | undefined = config
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Array.isArray(value) ? value[Number(part)] : Object.hasOwn(value, part) ? value[part] : undefined
  }
  return value
}

export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => sameJson(valueAt(a, [key]), valueAt(b, [key])))
  )
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

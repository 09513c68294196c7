import { SandboxError } from '@sandkasten/sdk'
import type { Reserve } from './disk-reserve.ts'
import { databaseError, diskFull } from './errors.ts'

/** How methods behave on a full disk. A method is named `Class.method`. Other methods just fail with `disk_full`. */
export interface FullDiskRules {
  /** Methods that shrink the database or change a row in place. They must work on a full disk, and use the reserve. */
  readonly essential: ReadonlySet<string>
  /** Methods that grow the database. They fail while the reserve is spent. */
  readonly growing: ReadonlySet<string>
}

/** Wraps the methods of `queries` so that they reject with `SandboxError`, and use the reserve when the disk is full. */
export function guarded<T extends object>(
  queries: T,
  { essential, growing }: FullDiskRules,
  reserve: Reserve | undefined,
): T {
  return new Proxy(queries, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      const method = `${target.constructor.name}.${String(name)}`
      return async (...args: unknown[]) => {
        if (reserve?.spent && growing.has(method)) throw diskFull()
        try {
          return await value.apply(target, args)
        } catch (error) {
          const known = databaseError(error)
          if (!SandboxError.is(known, 'disk_full') || !essential.has(method) || !reserve?.spend()) throw known
        }
        try {
          return await value.apply(target, args)
        } catch (error) {
          throw databaseError(error)
        }
      }
    },
  })
}

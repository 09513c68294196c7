import { databaseError, isDuplicate, type Reserve } from '@sandkasten/database'
import { SandboxError } from '@sandkasten/sdk'

/**
 * Wraps the methods of `queries`: they reject with `SandboxError` only, and then they have changed nothing. If the disk is
 * full, a method runs again with the reserved space.
 */
export function withSandboxErrors<T extends object>(queries: T, reserve?: Reserve): T {
  return new Proxy(queries, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => withReserve(async () => value.apply(target, args), { reserve })
    },
  })
}

export interface WithReserve {
  readonly reserve?: Reserve
  /** The database's file, for messages about it. */
  readonly file?: string
}

/** Runs `work`, and once more with the reserved space if the disk is full. */
export async function withReserve<T>(work: () => Promise<T>, { reserve, file }: WithReserve): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const known = storeError(error, file)
      if (known.code !== 'disk_full' || !reserve?.spend()) throw known
    }
  }
}

function storeError(error: unknown, file?: string): SandboxError {
  const known = databaseError(error, file)
  if (SandboxError.is(known)) return known
  if (isDuplicate(error))
    return new SandboxError('conflict', 'The database of threads has this entry already.', { cause: error })
  return new SandboxError('internal', 'The database of threads refused a query.', { cause: error })
}

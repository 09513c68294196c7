import { databaseError, isDuplicate } from '@sandkasten/database'
import { isStaleKey } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'

/** Wraps the methods of `queries`: they reject with `SandboxError` only, and then they have changed nothing. */
export function withSandboxErrors<T extends object>(queries: T): T {
  return new Proxy(queries, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        try {
          return await value.apply(target, args)
        } catch (error) {
          throw storeError(error)
        }
      }
    },
  })
}

export function storeError(error: unknown): SandboxError {
  const known = databaseError(error)
  if (SandboxError.is(known)) return known
  if (isDuplicate(error))
    return new SandboxError('conflict', 'The registry has this entry already.', { cause: error })
  if (isStaleKey(error))
    return new SandboxError('conflict', 'The key of the registry was rotated meanwhile.', {
      cause: error,
      hint: 'Repeat the call.',
    })
  return new SandboxError('internal', 'The registry’s database refused a query.', { cause: error })
}

export function nameTaken(name: string): SandboxError {
  return new SandboxError('conflict', `The name “${name}” is taken.`, {
    hint: 'Choose another name, or use the existing sandbox.',
    details: { name },
  })
}

/** Wraps the object and replaces some members. Other methods keep their own `this`. */
export function override<T extends object>(real: T, replaced: Partial<T>): T
/** The same for a generic `T`: checks the replacements against a supertype of it. */
export function override<T extends Members, Members extends object>(real: T, replaced: Partial<Members>): T
export function override<T extends object>(real: T, replaced: object): T {
  return new Proxy(real, {
    get(target, key) {
      if (Object.hasOwn(replaced, key)) return Reflect.get(replaced, key)
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Wraps the object and replaces some members. Other methods keep their own `this`. */
export function override<T extends object>(real: T, replaced: Partial<T>): T {
  return new Proxy(real, {
    get(target, key) {
      if (Object.hasOwn(replaced, key)) return replaced[key as keyof T]
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

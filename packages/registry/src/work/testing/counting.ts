import { appendFileSync } from 'node:fs'
import type { SandboxHandle, SandboxProvider } from '@sandkasten/sdk'

const counted = ['stop', 'snapshot', 'destroy']

/** Writes what changes a sandbox into a file that several processes share. `before` runs first. */
export function counting(
  provider: SandboxProvider,
  file: string,
  before: (method: string) => Promise<void> = async () => {},
): SandboxProvider {
  const observed = <T extends object>(target: T, result: (value: unknown) => unknown = (value) => value): T =>
    new Proxy(target, {
      get(object, property) {
        const value: unknown = Reflect.get(object, property)
        if (typeof value !== 'function') return value
        return async (...args: unknown[]) => {
          const name = String(property)
          if (counted.includes(name)) {
            appendFileSync(file, `${name} ${(object as { sandboxId?: string }).sandboxId ?? args[0]}\n`)
            await before(name)
          }
          return result(await value.apply(object, args))
        }
      },
    })
  const isHandle = (value: unknown): value is SandboxHandle =>
    typeof value === 'object' && value !== null && 'runCommand' in value
  return observed(provider, (value) => (isHandle(value) ? observed(value) : value))
}

import type { SandboxCore } from '@sandkasten/sdk'

const running = new Map<string, Promise<unknown>>()

/** Runs calls with the same key one after the other. Each gets the result of the one before, if that succeeded. */
export async function inTurn<T>(key: string, work: (before: T | undefined) => Promise<T>): Promise<T> {
  const previous = running.get(key) as Promise<T> | undefined
  const turn = (previous ?? Promise.resolve(undefined)).catch(() => undefined).then(work)
  running.set(key, turn)
  try {
    return await turn
  } finally {
    if (running.get(key) === turn) running.delete(key)
  }
}

const passwords = new WeakMap<SandboxCore, Map<string, string>>()

/** The password of a server that was bootstrapped with the same handle. */
export function knownPassword(handle: SandboxCore, key: string): string | undefined {
  return passwords.get(handle)?.get(key)
}

export function rememberPassword(handle: SandboxCore, key: string, password: string): void {
  const known = passwords.get(handle) ?? new Map<string, string>()
  passwords.set(handle, known.set(key, password))
}

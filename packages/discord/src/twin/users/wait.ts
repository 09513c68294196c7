import type { Core } from '../core.ts'

export interface WaitOptions {
  /** The deadline on the machine's clock; 5 seconds by default. */
  readonly timeoutMs?: number
}

/**
 * Waits until `find` returns something. It runs `find` again after each change of the twin's world, and fails at the
 * deadline with `describe`'s view of the world. With `channelId`, changes of other channels are ignored.
 */
export async function waitFor<T>(
  core: Core,
  what: string,
  find: () => T | undefined | false,
  describe: () => string,
  { timeoutMs = 5000, channelId }: WaitOptions & { channelId?: string } = {},
): Promise<T> {
  const now = find()
  if (now !== undefined && now !== false) return now
  return await new Promise<T>((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer)
      core.changes.off('change', check)
    }
    const check = (changed?: string) => {
      if (channelId !== undefined && changed !== undefined && changed !== channelId) return
      try {
        const found = find()
        if (found === undefined || found === false) return
        finish()
        resolve(found)
      } catch (error) {
        finish()
        reject(error)
      }
    }
    const timer = setTimeout(() => {
      finish()
      reject(new Error(`waited ${timeoutMs} ms for ${what}; the last state was:\n${describe()}`))
    }, timeoutMs)
    core.changes.on('change', check)
  })
}

import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'

type Methods = Record<string, (...args: never[]) => Promise<unknown>>

/**
 * Calls methods of another process: a line of JSON `{ id, method, args }`, answered by `{ id, result }` or
 * `{ id, error }`. Resolves when the process has written `{ "ready": true }`.
 */
export async function remoteOf<T extends Methods>(child: ChildProcess): Promise<T> {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let last = 0
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const { id, result, error, ready } = JSON.parse(line)
      if (ready) return resolve()
      const call = waiting.get(id)
      waiting.delete(id)
      if (error) call?.reject(Object.assign(new Error(error.message), error))
      else call?.resolve(result)
    })
    child.once('exit', (code) => {
      const ended = new Error(`the process ended with ${code}`)
      for (const { reject: fail } of waiting.values()) fail(ended)
      reject(ended)
    })
  })
  const call =
    (method: string) =>
    (...args: unknown[]) =>
      new Promise((resolve, reject) => {
        last += 1
        waiting.set(last, { resolve, reject })
        child.stdin!.write(`${JSON.stringify({ id: last, method, args })}\n`)
      })
  // A proxy that is returned from an async function is asked for `then`.
  return new Proxy({} as T, {
    get: (_, method) => (method === 'then' ? undefined : call(String(method))),
  })
}

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { DatabaseLocation } from '../index.ts'
import type { Tasks } from './child.ts'

/** Another process that does one task. */
export interface Child {
  readonly process: ChildProcess
  /** Messages of the task so far. */
  readonly said: readonly string[]
  /** Waits for the task's next message. */
  heard(): Promise<void>
  /** What the task returned. Rejects with the task's error, and if the process was killed. */
  readonly result: Promise<unknown>
  /** Kills the process with SIGKILL, and waits until it has ended. */
  kill(): Promise<void>
}

const file = path.join(import.meta.dirname, 'child.ts')

export function startChild<Name extends keyof Tasks>(
  location: DatabaseLocation,
  task: Name,
  options: Tasks[Name],
): Child {
  const child = fork(file, {
    execArgv: ['--conditions=sandkasten-source', '--disable-warning=ExperimentalWarning'],
  })
  const said: string[] = []
  const result = new Promise<unknown>((resolve, reject) => {
    child.on('message', (message: string | { result?: unknown; error?: string }) => {
      if (typeof message === 'string') said.push(message)
      else if (message.error !== undefined) reject(new Error(message.error))
      else resolve(message.result)
    })
    child.once('exit', (code, signal) => reject(new Error(`The child ended with ${signal ?? code}.`)))
  })
  result.catch(() => {})
  child.send({ location, task, options })
  return {
    process: child,
    said,
    result,
    async heard() {
      await Promise.race([once(child, 'message'), result])
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { BotTask } from './bot-process.ts'

const file = path.join(import.meta.dirname, 'bot-process.ts')

export interface BotProcess {
  readonly child: ChildProcess
  /** Resolves when the bot has caught up. */
  readonly ready: Promise<void>
  kill(): Promise<void>
}

/** A bot in a process that can be killed. */
export function startProcess(task: BotTask, onLine: (line: string) => void = () => {}): BotProcess {
  const args = ['--expose-gc', '--conditions=sandkasten-source', '--no-warnings', file, JSON.stringify(task)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  child.stdout!.setEncoding('utf8').on('data', (text: string) => text.split('\n').filter(Boolean).map(onLine))
  const ended = once(child, 'exit')
  const ready = Promise.race([
    new Promise<void>((resolve) => {
      child.on('message', (message) => {
        if (message === 'ready') resolve()
      })
    }),
    ended.then(() => Promise.reject(new Error('The bot ended.'))),
  ])
  // Most are killed before.
  ready.catch(() => {})
  return {
    child,
    ready,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

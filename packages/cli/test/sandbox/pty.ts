import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { stripVTControlCharacters } from 'node:util'
import { quoteArg, quoteArgs } from '@sandkasten/sdk'
import { bin } from '../helper.ts'

export interface Pty {
  readonly child: ChildProcess
  /** Everything shown so far, as the terminal got it. */
  readonly raw: string
  /** Waits until the text is shown after what was awaited before, and types. Escape sequences are not searched. */
  expect(text: string | RegExp, type?: string): Promise<void>
  type(text: string): void
  /** The exit code of the command. */
  ended(): Promise<number>
}

export const keys = { enter: '\r', down: '\x1b[B', interrupt: '\x03', end: '\x04', escape: '\x1b' } as const

/** Runs the real command line on a real terminal of 80 columns, with `script`. */
export function onTerminal(args: readonly string[], env: Record<string, string>, cwd: string): Pty {
  // The command's PATH need not have `script`.
  const path = quoteArg(env.PATH ?? process.env.PATH!)
  const line = `stty cols 80 rows 24; PATH=${path} exec ${quoteArgs([process.execPath, bin, ...args])}`
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    cwd,
    env: { TERM: 'xterm', SHELL: '/bin/sh', ...env, PATH: process.env.PATH },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin!.on('error', () => {})
  let raw = ''
  let seen = 0
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    raw += text
  })
  const exit = once(child, 'close')
  const find = (text: string | RegExp): number => {
    const shown = stripVTControlCharacters(raw).slice(seen)
    const match = typeof text === 'string' ? shown.indexOf(text) : shown.search(text)
    if (match === -1) return -1
    return seen + match + (typeof text === 'string' ? text.length : 1)
  }
  return {
    child,
    get raw() {
      return raw
    },
    async expect(text, type) {
      for (const startedAt = Date.now(); find(text) === -1; ) {
        if (Date.now() - startedAt > 30_000 || child.exitCode !== null)
          throw new Error(`the terminal does not show ${text}: ${JSON.stringify(raw.slice(-2_000))}`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      seen = find(text)
      if (type !== undefined) child.stdin!.write(type)
    },
    type: (text) => void child.stdin!.write(text),
    async ended() {
      const [code] = await exit
      return code as number
    },
  }
}

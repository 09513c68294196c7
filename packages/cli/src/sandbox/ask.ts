import { SandboxError } from '@sandkasten/sdk'
import { Interrupted } from './interrupt.ts'

export interface Asking {
  yes?: boolean
  json?: boolean
}

/** Whether a question can be asked: stdin and stderr are a terminal, and the options do not forbid it. */
export function canAsk({ yes, json }: Asking = {}): boolean {
  return !yes && !json && Boolean(process.stdin.isTTY && process.stderr.isTTY)
}

/** Questions go to stderr: stdout has the result. */
export const onStderr = { input: process.stdin, output: process.stderr, withGuide: false } as const

/** The answer to a prompt of `@clack/prompts`. Ctrl-C and Escape throw `Interrupted`. */
export async function answerTo<T>(prompt: Promise<T>): Promise<Exclude<T, symbol>> {
  const answer = await prompt
  if (typeof answer === 'symbol') throw new Interrupted('SIGINT')
  return answer as Exclude<T, symbol>
}

/**
 * Asks for permission. With --yes it is given. In a script without --yes, throws an error that says what would be done.
 */
export async function permitted(question: string, asking: Asking): Promise<boolean> {
  if (asking.yes) return true
  if (!canAsk(asking))
    throw new SandboxError('invalid_argument', `This needs a confirmation: ${question}`, {
      hint: 'There is no terminal to ask on. Add --yes.',
    })
  const { confirm } = await import('@clack/prompts')
  return answerTo(confirm({ ...onStderr, message: question, initialValue: false }))
}

import type { ProgressStep } from '@sandkasten/registry'
import { say } from '../errors.ts'
import { oneLine } from '../format.ts'
import { showing } from '../progress.ts'

export interface StepsOptions {
  /** Without a terminal, print nothing instead of one line for each step. */
  quiet?: boolean
}

/** Shows the steps of an operation on stderr: on a terminal one line that is updated, elsewhere a line for each. */
export async function withSteps<T>(
  work: (onProgress: (step: ProgressStep) => void) => Promise<T>,
  { quiet = false }: StepsOptions = {},
): Promise<T> {
  let current: ProgressStep | undefined
  let since = performance.now()
  const onProgress = (step: ProgressStep) => {
    const isNew = step.step !== current?.step || step.message !== current.message
    current = step
    if (!isNew) return
    since = performance.now()
    if (!process.stderr.isTTY && !quiet && step.step !== 'done') say(`sandkasten: ${oneLine(step.message)}`)
  }
  return showing(() => (current ? lineOf(current, (performance.now() - since) / 1000) : ''), work(onProgress))
}

function lineOf({ message, done, total }: ProgressStep, seconds: number): string {
  const percent = done !== undefined && total ? ` ${Math.min(Math.floor((done / total) * 100), 100)} %` : ''
  return `${oneLine(message)}…${percent}${seconds >= 1 ? ` ${Math.floor(seconds)} s` : ''}`
}

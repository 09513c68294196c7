import type { ExitEvent, ProcessSignal } from '@sandkasten/sdk'

/** Signals that mean the end of a command. */
export const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Passes our signals on to the command instead of ending by them; the returned function takes that back. */
export function forwardSignals(kill: (signal: ProcessSignal) => Promise<unknown>): () => void {
  let interrupts = 0
  const forward = (signal: NodeJS.Signals) => {
    // Who presses Ctrl-C a third time does not want to wait for the program's consent.
    if (signal === 'SIGINT') interrupts += 1
    void kill(interrupts >= 3 ? 'SIGKILL' : (signal as ProcessSignal)).catch(() => {})
  }
  for (const signal of endings) process.on(signal, forward)
  return () => {
    for (const signal of endings) process.off(signal, forward)
  }
}

/** Says why a command ended, where its exit code alone does not tell. */
export function tellEnd(
  { timedOut, oom }: Pick<ExitEvent, 'timedOut' | 'oom'>,
  timeout: number | undefined,
): void {
  if (timedOut) console.error(`sandkasten: the command was ended after ${timeout} s.`)
  if (oom)
    console.error(
      'sandkasten: the command was ended because the sandbox’s memory ran out; give it more with --memory.',
    )
}

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

/** Our exit code for a command, as `timeout` of coreutils has it for one that took too long. */
export const timedOutCode = 124

/** The exit code to pass on. Says why the command ended, where that code alone does not tell. */
export function codeOf(
  { timedOut, oom, exitCode }: Pick<ExitEvent, 'timedOut' | 'oom' | 'exitCode'>,
  timeout: number | undefined,
): number {
  if (timedOut) console.error(`sandkasten: the command was ended after ${timeout} s (--timeout).`)
  if (oom)
    console.error(
      'sandkasten: the command was ended because the sandbox’s memory ran out; give it more with --memory.',
    )
  return timedOut ? timedOutCode : exitCode
}

import type { ExitEvent, ProcessSignal } from '@sandkasten/sdk'

export const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Forwards our signals to the command; the returned function stops that. */
export function forwardSignals(kill: (signal: ProcessSignal) => Promise<unknown>): () => void {
  let interrupts = 0
  const forward = (signal: NodeJS.Signals) => {
    // The third Ctrl-C kills the program.
    if (signal === 'SIGINT') interrupts += 1
    void kill(interrupts >= 3 ? 'SIGKILL' : (signal as ProcessSignal)).catch(() => {})
  }
  for (const signal of endings) process.on(signal, forward)
  return () => {
    for (const signal of endings) process.off(signal, forward)
  }
}

/** The exit code after a timeout, as in coreutils' `timeout`. */
export const timedOutCode = 124

/** The exit code to return. Prints the reason if the code alone does not tell. */
export function codeOf(
  { timedOut, oom, exitCode }: Pick<ExitEvent, 'timedOut' | 'oom' | 'exitCode'>,
  timeout: number | undefined,
): number {
  if (timedOut) console.error(`sandkasten: the command was ended after ${timeout} s (--timeout).`)
  if (oom)
    console.error(
      'sandkasten: the command was ended because the sandbox ran out of memory; raise the limit with --memory.',
    )
  return timedOut ? timedOutCode : exitCode
}

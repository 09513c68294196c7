/** Ctrl-C, a closed terminal: whoever measures looks here before every step and throws; then everything is undone in order. */
const controller = new AbortController()

export function assertGoingOn(): void {
  controller.signal.throwIfAborted()
}

export function isStopped(): boolean {
  return controller.signal.aborted
}

/** The first signal stops the measuring. Gives the exit code that a shell expects after it. */
export function stopOnSignals(): { exitCode: () => number | undefined; stopped: Promise<void> } {
  let exitCode: number | undefined
  const stopped = new Promise<void>((resolve) => {
    for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 })) {
      process.on(signal, () => {
        if (exitCode !== undefined) return
        exitCode = code
        console.error(`\n${signal}: cleaning up …`)
        controller.abort(new Error(`stopped by ${signal}`))
        resolve()
      })
    }
  })
  return { exitCode: () => exitCode, stopped }
}

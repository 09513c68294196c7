/** Ctrl-C or a closed terminal: measurements check this before every step and throw; then the cleanup runs. */
const controller = new AbortController()

export function assertGoingOn(): void {
  controller.signal.throwIfAborted()
}

export function isStopped(): boolean {
  return controller.signal.aborted
}

/** The first signal stops the measurement. Returns the exit code that a shell expects. */
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

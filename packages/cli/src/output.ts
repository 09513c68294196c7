import { constants } from 'node:os'

/** The exit code that shells report for a program that SIGPIPE ended. */
export const brokenPipeCode = 128 + constants.signals.SIGPIPE

let survives = false

/**
 * Ends the process when its output cannot be written. A reader that has gone (`sandkasten … | head`) ends it without a
 * word, as SIGPIPE ends other programs; a full disk is reported.
 */
export function exitWhenOutputFails(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (survives) return
      if (error.code === 'EPIPE') process.exit(brokenPipeCode)
      if (stream === process.stdout)
        console.error(`sandkasten: the output cannot be written: ${error.message}`)
      process.exit(125)
    })
}

/** For commands that must go on, or clean up, when their output has no reader any more. */
export function surviveOutputFailures(): void {
  survives = true
}

/** Waits for a slow reader. */
export function write(stream: NodeJS.WriteStream, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

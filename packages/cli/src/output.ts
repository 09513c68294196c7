import { constants } from 'node:os'

export const brokenPipeCode = 128 + constants.signals.SIGPIPE

/**
 * Exits when the output cannot be written: silently if the reader is gone (`sandkasten … | head`), like SIGPIPE, and
 * with a message otherwise, for example on a full disk.
 */
export function exitWhenOutputFails(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(brokenPipeCode)
      if (stream === process.stdout)
        console.error(`sandkasten: the output cannot be written: ${error.message}`)
      process.exit(125)
    })
}

/**
 * For commands that must continue or clean up after their reader is gone. Changes the streams only: the published
 * command is several bundles, and each has its own copy of this module. Returns what restores the earlier behaviour.
 */
export function surviveOutputFailures(): () => void {
  const streams = [process.stdout, process.stderr]
  const before = streams.map((stream) => stream.listeners('error') as Array<(error: Error) => void>)
  for (const stream of streams) {
    stream.removeAllListeners('error')
    stream.on('error', () => {})
  }
  return () => {
    for (const [index, stream] of streams.entries()) {
      stream.removeAllListeners('error')
      for (const listener of before[index]!) stream.on('error', listener)
    }
  }
}

/** Writes with backpressure. */
export function write(stream: NodeJS.WriteStream, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

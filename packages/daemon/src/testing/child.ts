/** A daemon in a separate process, for tests that kill it. Prints its address, then serves. */
import { configOf } from '../config/index.ts'
import { startDaemon } from '../daemon.ts'

const daemon = await startDaemon({ config: configOf(JSON.parse(process.argv[2]!)), ownsProcess: true })
process.on('SIGTERM', () => void daemon.close())
// Lets tests measure the real heap.
process.on('SIGUSR2', () => globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }))
process.stdout.write(
  `${JSON.stringify({ url: daemon.url, firstKey: daemon.firstKey, fronts: daemon.fronts })}\n`,
)

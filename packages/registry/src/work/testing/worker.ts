/** A process that does due work in a loop, and sends its reports. Its argument: `WorkerTask` as JSON. */
import { LocalProvider } from '@sandkasten/sdk/local'
import type { DatabaseLocation } from '../../store/index.ts'
import { SteadyTime } from '../steady-time.ts'
import { counting } from './counting.ts'
import { openProcess } from './process.ts'

export interface WorkerTask {
  readonly database: DatabaseLocation
  readonly root: string
  /** Where calls that change a sandbox are written. */
  readonly witness: string
  /** This call never returns. */
  readonly hangs?: string
}

const { database, root, witness, hangs } = JSON.parse(process.argv[2]!) as WorkerTask
const local = new LocalProvider({ root, acceptNoIsolation: true })
const provider = counting(local, witness, async (method) => {
  if (method !== hangs) return
  process.send!({ hangs: method })
  await new Promise(() => {})
})
const { now } = new SteadyTime()
const { work } = await openProcess(database, [provider], { now, mostWaitMs: 50 })
const stop = new AbortController()
process.on('message', (message) => {
  if (message === 'stop') stop.abort()
  else process.send!({ wall: Date.now(), now: now() })
})
process.send!('ready')
await work.loop({
  signal: stop.signal,
  onReport: ({ done, failed }) => process.send!({ done, failed: failed.map(({ error }) => String(error)) }),
})
process.exit(0)

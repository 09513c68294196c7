/** A process that uses a registry's database, for tests with several of them. It does one task, and sends messages. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { BeatWatch, Leases } from '../../leases/index.ts'
import { type DatabaseLocation, openStore, type Store } from '../index.ts'
import { sandboxRow } from './rows.ts'

export interface Tasks {
  /** Opens the database, and sends the registry's id. */
  open: Record<never, never>
  /** Inserts sandboxes, and sends `inserted` or the code of the error for each. */
  insert: { count: number; names: string; perGuild: number }
  /** Makes each provider the default, in rounds. */
  setDefault: { providers: readonly string[]; rounds: number }
  /** Operates on one sandbox. The file `witness` exists while a holder works. With `jumps`, the wall clock jumps. */
  operate: { id: string; times: number; witness: string; workMs?: number; jumps?: boolean }
  /** Takes the lease, and never releases it. */
  hold: { id: string }
}

export interface Order<Name extends keyof Tasks = keyof Tasks> {
  readonly location: DatabaseLocation
  readonly task: Name
  readonly options: Tasks[Name]
}

const tasks: { [Name in keyof Tasks]: (store: Store, options: Tasks[Name]) => Promise<unknown> } = {
  open: (store) => store.facts.registryId(),

  insert: (store, { count, names, perGuild }) =>
    Promise.all(
      Array.from({ length: count }, (_, at) =>
        store.sandboxes.insert(sandboxRow({ name: `${names}${at}` }), { perGuild }).then(
          () => 'inserted',
          (error: unknown) => (SandboxError.is(error) ? error.code : String(error)),
        ),
      ),
    ),

  async setDefault(store, { providers, rounds }) {
    for (let round = 0; round < rounds; round += 1)
      for (const provider of providers) await store.providers.setDefault('', provider)
  },

  async operate(store, { id, times, witness, workMs = 0, jumps }) {
    if (jumps) Date.now = () => Math.floor(Math.random() * 4e12)
    const leases = new Leases(store.sandboxes, new BeatWatch(), async () => removeDead(witness))
    for (let time = 0; time < times; time += 1)
      await leases.operate(id, 'start', async (lease) => {
        // Fails if another holder works at the same time.
        writeFileSync(witness, String(process.pid), { flag: 'wx' })
        await lease.update({ incarnation: lease.row.incarnation + 1 })
        if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs))
        rmSync(witness)
        process.send!('operated')
      })
  },

  async hold(store, { id }) {
    const leases = new Leases(store.sandboxes, new BeatWatch(), async () => {})
    await leases.operate(id, 'start', async () => {
      process.send!('held')
      await new Promise((resolve) => setTimeout(resolve, 600_000))
    })
  },
}

/** Removes the file of a holder that has ended. Fails if the holder still works. */
function removeDead(witness: string): void {
  let pid: number
  try {
    pid = Number(readFileSync(witness, 'utf8'))
  } catch {
    return
  }
  if (isRunning(pid)) throw new Error(`Taken over from process ${pid}, which still works.`)
  rmSync(witness)
}

function isRunning(pid: number): boolean {
  if (pid === process.pid) return true
  try {
    // A zombie has ended.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

async function run({ location, task, options }: Order): Promise<void> {
  const store = await openStore(location)
  const work = tasks[task] as (store: Store, options: unknown) => Promise<unknown>
  const result = await work(store, options)
  await store.close()
  process.send!({ result })
  process.disconnect()
}

process.once('message', (order: Order) => {
  run(order).catch((error: unknown) => {
    process.send!({ error: error instanceof Error ? error.stack : String(error) })
    process.disconnect()
  })
})

/** A process that works with stored secrets, for tests that kill it. Takes its task from stdin, so argv has no secret. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { json } from 'node:stream/consumers'
import { KillAtStep } from '../../../../test/kill-at-step.ts'
import type { Place } from '../../src/context.ts'
import { openCredentials } from '../../src/credentials/index.ts'
import { openStore } from '../../src/store/index.ts'
import { sandboxRow } from '../../src/store/testing/rows.ts'

export interface Task {
  readonly mode: 'rotate' | 'setup' | 'use' | 'list' | 'crash'
  readonly file: string
  /** For `setup` and `use`. */
  readonly url?: string
  /** Stored one after the other. */
  readonly keys?: readonly string[]
  /** Stored with a sandbox. */
  readonly envText?: string
  readonly password?: string
  /** Stored as secrets of network policies, one after the other under one name. */
  readonly values?: readonly string[]
  /** Kills this process before this step of the task. A step is a call of the file system or of the database. */
  readonly killAt?: number
  /** False: as the program leaves it. True: cores have this process's memory, as is usual. */
  readonly withMemoryInCores?: boolean
  /** How often to repeat; default 1. */
  readonly times?: number
}

const task = (await json(process.stdin)) as Task
const store = await openStore({ file: task.file })
const { credentials, providers, secrets, stored } = await openCredentials({
  store,
  keyFile: `${task.file}.key`,
  env: {},
})
const provider = 'daemon'

if (task.killAt !== undefined) killBeforeStep(task.killAt)
process.stdout.write('ready\n')
for (let round = 0; round < (task.times ?? 1); round += 1) {
  await run()
  // SQLite's lock is not fair: without a pause, another process would not get it.
  if (task.times) await new Promise((resolve) => setTimeout(resolve, 20))
}
if (task.withMemoryInCores) fs.writeFileSync('/proc/self/coredump_filter', '0x33')
process.stdout.write('done\n')
if (task.mode === 'use' || task.mode === 'list') setInterval(() => {}, 1_000)
else await store.close()

async function run(): Promise<void> {
  if (task.mode === 'rotate') await credentials.rotateKey()
  else if (task.mode === 'setup')
    for (const apiKey of task.keys ?? [])
      await credentials.setup(provider, { url: task.url!, apiKey }, { check: false })
  else if (task.mode === 'list') {
    console.log(JSON.stringify(await credentials.list()))
    console.error(await credentials.remove(provider).catch((error: unknown) => error))
  } else await use()
}

/** Stores, replaces and uses secrets, and prints everything that a program would. */
async function use(): Promise<void> {
  for (const apiKey of task.keys ?? [])
    console.log(await credentials.setup(provider, { url: task.url!, apiKey }, { check: false }))
  const row = sandboxRow({
    name: randomUUID(),
    provider,
    credentials_id: (await store.providers.byProvider('', provider))!.id,
  })
  const placeOf = (column: string): Place => ({ table: 'sandboxes', column, row: row.id })
  await secrets.storing(async () =>
    store.sandboxes.insert({
      ...row,
      env: await secrets.seal(task.envText!, placeOf('env')),
      opencode_password: await secrets.seal(task.password!, placeOf('opencode_password')),
    }),
  )
  for (const value of task.values ?? []) console.log(await stored.put('github', value))
  await credentials.rotateKey()
  if (task.values && (await stored.within(row, () => stored.valueOf('github'))) !== task.values.at(-1))
    throw new Error('The secret does not open.')
  console.log(await stored.put('short', '12345').catch((error: unknown) => error), await stored.list())
  const used = await providers.of(row)
  const list = used.list()
  if (task.mode === 'crash') await list
  console.error(await list.catch((error: unknown) => error))
  console.log(JSON.stringify(await credentials.list()), JSON.stringify(await store.sandboxes.byId(row.id)))
  const wrong = { url: task.url!, apiKey: task.keys!.at(-1)!, apikey: task.keys!.at(-1)! }
  console.error(await credentials.setup(provider, wrong).catch((error: unknown) => error))
}

/** The steps are the calls that change files and the database, as they are used by the program. */
function killBeforeStep(killAt: number): void {
  const kill = new KillAtStep(killAt)
  kill.methods(fs, ['openSync', 'writeFileSync', 'fsyncSync', 'closeSync', 'renameSync', 'rmSync'])
  syncBuiltinESMExports()
  kill.database()
}

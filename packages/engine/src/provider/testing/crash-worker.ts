/**
 * A process that uses the engine until it is killed, for `crash.test.ts`. Several concurrent loops create, write, copy,
 * stop and destroy. It prints a line before each change (`about`) and after each acknowledged change (`done`).
 *
 *     node crash-worker.ts '{ provider options }' '[sandboxes that are there]' '[snapshots that are there]' 'are shims killed, true or false'
 */
import { randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { EngineProvider } from '../engine-provider.ts'
import { noteOf, type Said, showDisk } from './crash-picture.ts'

const [options, sandboxes, snapshots, shimsAreKilled] = process.argv.slice(2).map((text) => JSON.parse(text))
const provider = new EngineProvider(options)
type Sandbox = Awaited<ReturnType<typeof provider.create>>
const mine: string[] = sandboxes
const saved: string[] = snapshots

/** Writes synchronously, so that no line is lost when this process is killed. */
const say = (line: Said) => writeSync(1, `${JSON.stringify(line)}\n`)
const chance = (of: number) => Math.random() < of
const takeOne = (list: string[]) => list.splice(Math.floor(Math.random() * list.length), 1)[0]

async function write(sandbox: Sandbox): Promise<void> {
  const text = randomBytes(8).toString('hex')
  say({ about: 'write', id: sandbox.sandboxId, text })
  // A rename is atomic, so the file contains the old or the new text.
  const script = `mkdir -p d; head -c $((RANDOM * 20)) /dev/urandom > d/$RANDOM; rm -f d/?; echo ${text} > note.new; mv note.new note`
  await sandbox.runCommand({ cmd: 'bash', args: ['-c', script] })
  await sandbox.files.writeFile('uploaded', randomBytes(10_000))
  say({ done: 'write', id: sandbox.sandboxId, text })
}

async function save(sandbox: Sandbox): Promise<void> {
  const picture = await showDisk(sandbox)
  if (chance(0.5)) await sandbox.stop()
  const { snapshotId } = await sandbox.snapshot()
  say({ done: 'snapshot', id: snapshotId, picture })
  saved.push(snapshotId)
}

async function fork(sandbox: Sandbox): Promise<void> {
  const text = await noteOf(sandbox)
  for (const copy of await sandbox.fork({ count: 2 })) {
    if (copy instanceof Error) throw copy
    say({ done: 'create', id: copy.sandboxId, text })
    mine.push(copy.sandboxId)
  }
}

async function turn(): Promise<void> {
  const known = mine.length > 2 || chance(0.5) ? takeOne(mine) : undefined
  const base = saved.length > 0 && chance(0.5) ? saved[Math.floor(Math.random() * saved.length)] : undefined
  const sandbox = known
    ? await provider.get(known)
    : await provider.create(base === undefined ? {} : { snapshotId: base })
  const id = sandbox.sandboxId
  if (!known) say({ done: 'create', id, text: await noteOf(sandbox) })
  // Ends the commands that an earlier process left running in the sandbox.
  else await sandbox.runCommand({ cmd: 'bash', args: ['-c', 'kill -9 -1'] })
  await write(sandbox)
  const what = Math.random()
  if (what < 0.4) await save(sandbox)
  else if (what < 0.7) await fork(sandbox)
  if (mine.length > 4 || chance(0.4)) {
    say({ about: 'destroy', id })
    await sandbox.destroy()
    say({ done: 'destroy', id })
  } else mine.push(id)
  if (saved.length > 3) {
    const old = takeOne(saved)!
    say({ about: 'delete', id: old })
    await provider.deleteSnapshot(old)
    say({ done: 'delete', id: old })
  }
}

async function loop(): Promise<never> {
  for (;;) {
    await turn().catch((error) => {
      // Expected: another loop deleted the snapshot, or the test killed the shim.
      const code = String(error?.code ?? error)
      const expected = shimsAreKilled ? ['not_running', 'connection_lost', 'interrupted', 'unavailable'] : []
      if (![...expected, 'not_found'].includes(code)) {
        say({ failed: `${code}: ${error?.message} ${error?.cause ?? ''}` })
      }
    })
  }
}

say({ done: 'ready', id: '' })
await Promise.all([loop(), loop(), loop()])

/** A process of `kills.test.ts`: changes named sandboxes until it is killed. Its task comes from stdin. */
import { writeSync } from 'node:fs'
import { json } from 'node:stream/consumers'
import { SandboxError } from '@sandkasten/sdk'
import { providerKinds } from '@sandkasten/sdk/auto'
import { openRegistry } from '../../packages/registry/src/index.ts'
import { random as randomOf } from '../random.ts'

export interface KilledTask {
  readonly dataDir: string
  readonly seed: number
  /** Created, used and destroyed at random. */
  readonly names: readonly string[]
  /** Exists already, and is never destroyed. */
  readonly kept: string
  /** Stored with every sandbox, and never printed. */
  readonly secret: string
}

const task = (await json(process.stdin)) as KilledTask
const random = randomOf(task.seed)
const registry = await openRegistry({
  dataDir: task.dataDir,
  kinds: providerKinds.filter(({ provider }) => provider === 'daemon'),
  env: {},
})
const sandboxes = registry.in()

const onAny = {
  resume: (name: string) => sandboxes.resume(name),
  stop: (name: string) => sandboxes.stop(name, { force: true }),
  snapshot: (name: string) => sandboxes.snapshot(name, { force: true }),
}
const onOthers = {
  ...onAny,
  create: (name: string) => sandboxes.create({ name, envVars: { SECRET: task.secret } }),
  destroy: (name: string) => sandboxes.destroy(name, { force: true }),
  hold: async (name: string) => (await sandboxes.hold(name)).release(),
}

/** What is right for a caller whose sandbox another process changes at the same time. */
const expected = ['conflict', 'not_found', 'not_running', 'interrupted']

say('ready')
for (;;) {
  const roll = random.next()
  if (roll < 0.1) await attempt('rotate', task.kept, () => registry.credentials.rotateKey())
  else if (roll < 0.2) await attempt('reconcile', task.kept, () => registry.reconcile())
  else if (roll < 0.5) {
    const what = random.pick(['resume', 'resume', 'stop', 'snapshot'] as const)
    await attempt(what, task.kept, () => onAny[what](task.kept))
  } else {
    const what = random.pick([
      'create',
      'create',
      'create',
      'resume',
      'stop',
      'snapshot',
      'destroy',
      'hold',
    ] as const)
    const name = random.pick(task.names)
    await attempt(what, name, () => onOthers[what](name))
  }
}

async function attempt(what: string, name: string, work: () => Promise<unknown>): Promise<void> {
  say(`begin ${what} ${name}`)
  try {
    await work()
    say(`end ${what} ${name}`)
  } catch (error) {
    const isExpected = SandboxError.is(error) && expected.includes(error.code)
    say(isExpected ? `end ${what} ${name} ${error.code}` : `unexpected ${what} ${name} ${reasonOf(error)}`)
  }
}

/** With SQLite's own code, which the message does not have. */
function reasonOf(error: unknown): string {
  const { errcode } = ((error as Error | undefined)?.cause ?? {}) as { errcode?: number }
  return errcode === undefined ? String(error) : `${String(error)} (errcode ${errcode})`
}

/** Written at once, so that a kill loses no line. */
function say(line: string): void {
  writeSync(1, `${line}\n`)
}

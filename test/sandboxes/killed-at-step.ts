/** A process of `step-kills.test.ts`: does one operation, and is killed before one of its steps. Its task comes from stdin. */
import { writeSync } from 'node:fs'
import { json } from 'node:stream/consumers'
import { providerKinds } from '@sandkasten/sdk/auto'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { openRegistry } from '../../packages/registry/src/index.ts'
import { KillAtStep } from '../kill-at-step.ts'

export const operations = ['create', 'resume', 'snapshot', 'destroy'] as const

export interface StepTask {
  readonly dataDir: string
  readonly what: (typeof operations)[number]
  readonly name: string
  /** Stored with the sandbox, and never printed. */
  readonly secret: string
  /** Undefined: the process ends by itself, and prints the number of its steps. */
  readonly killAt?: number
}

if (import.meta.main) {
  const task = (await json(process.stdin)) as StepTask
  const { dataDir, what, name, secret } = task
  const kill = new KillAtStep(task.killAt)
  const kind = providerKinds.find(({ provider }) => provider === 'daemon')!
  const registry = await openRegistry({
    dataDir,
    kinds: [{ ...kind, make: ({ url, apiKey }) => new DaemonProvider({ url, apiKey, fetch: kill.fetch }) }],
    env: {},
  })
  const sandboxes = registry.in()
  kill.database()
  const before = kill.steps
  if (what === 'create') await sandboxes.create({ name, envVars: { SECRET: secret } })
  else if (what === 'resume') await sandboxes.resume(name)
  else if (what === 'snapshot') await sandboxes.snapshot(name)
  else await sandboxes.destroy(name)
  writeSync(1, `end ${what} ${kill.steps - before}\n`)
  process.exit(0)
}

import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { openRegistry } from '../index.ts'

/** A process of a test: `resume-often.ts DATA_DIR NAME COUNT` resumes a sandbox, `… create` hangs after it made one. */
const [dataDir, name, what] = process.argv.slice(2) as [string, string, string]
const provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
let starts = 0
const { get, create } = provider
provider.get = (sandbox, options) => {
  if (options?.resume !== false) starts += 1
  return get.call(provider, sandbox, options)
}
if (what === 'create')
  provider.create = async (options) => {
    await create.call(provider, options)
    console.log('created')
    return new Promise(() => {})
  }

const keepAlive = setInterval(() => {}, 1_000)
await using registry = await openRegistry({
  dataDir,
  kinds: [{ provider: 'local', title: 'Local', fields: [], make: () => provider }],
  defaultProvider: 'local',
  env: {},
})
if (what === 'create') await registry.in().create({ name })
const outcomes = await Promise.allSettled(
  Array.from({ length: Number(what) }, () => registry.in().resume(name)),
)
const resumed = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
const errors = outcomes.flatMap((outcome) =>
  outcome.status === 'rejected'
    ? [SandboxError.is(outcome.reason) ? outcome.reason.code : String(outcome.reason)]
    : [],
)
for (const { handle } of resumed) await handle.status()
console.log(
  JSON.stringify({
    incarnations: resumed.map(({ incarnation }) => incarnation),
    ids: resumed.map(({ handle }) => handle.sandboxId),
    errors,
    starts,
  }),
)
clearInterval(keepAlive)

import path from 'node:path'
import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { openRegistry } from '../index.ts'
import type { DatabaseLocation } from '../store/index.ts'

/** What a process of a test does: see `resume-often.ts`. Its argument is this, as JSON. */
export interface ResumeTask {
  readonly dataDir: string
  readonly database?: DatabaseLocation
  readonly name: string
  /** How many threads resume the sandbox. 0: the process creates it, and hangs then. */
  readonly threads: number
  /** One more thread destroys the sandbox, as soon as the first one hears that it is started. */
  readonly destroys?: boolean
  /** The handles are used only after the sandbox was destroyed. */
  readonly outlives?: boolean
}

export interface Resumed {
  readonly incarnations: number[]
  readonly ids: string[]
  /** Codes of the threads that got no handle. */
  readonly errors: string[]
  /** What came of using each handle: a status, or a code. */
  readonly uses: string[]
  /** Starts and creates at the provider. */
  readonly starts: number
  readonly creates: number
}

if (import.meta.main) {
  const { dataDir, database, name, threads, destroys, outlives } = JSON.parse(process.argv[2]!) as ResumeTask
  const provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
  const counts = { starts: 0, creates: 0 }
  const { get, create } = provider
  provider.get = (sandbox, options) => {
    if (options?.resume !== false) counts.starts += 1
    return get.call(provider, sandbox, options)
  }
  provider.create = async (options) => {
    counts.creates += 1
    const made = await create.call(provider, options)
    if (threads > 0) return made
    console.log('created')
    return new Promise(() => {})
  }

  const keepAlive = setInterval(() => {}, 1_000)
  await using registry = await openRegistry({
    dataDir,
    database,
    kinds: [{ provider: 'local', title: 'Local', fields: [], make: () => provider }],
    defaultProvider: 'local',
    env: {},
  })
  const sandboxes = registry.in()
  if (threads === 0) await sandboxes.create({ name })
  console.log('ready')
  // Processes of one test begin at the same time.
  await new Promise((resolve) => process.stdin.once('data', resolve))
  process.stdin.destroy()

  let destroyed: Promise<unknown> | undefined
  const onProgress = () => {
    if (destroys) destroyed ??= sandboxes.destroy(name, { force: true })
  }
  const outcomes = await Promise.allSettled(
    Array.from({ length: threads }, () => sandboxes.resume(name, { onProgress })),
  )
  await destroyed
  if (outlives) await untilGone(() => sandboxes.get(name))
  const resumed = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const result: Resumed = {
    incarnations: resumed.map(({ incarnation }) => incarnation),
    ids: resumed.map(({ handle }) => handle.sandboxId),
    errors: outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [codeOf(outcome.reason)] : [])),
    uses: await Promise.all(resumed.map(({ handle }) => use(handle))),
    ...counts,
  }
  console.log(JSON.stringify(result))
  clearInterval(keepAlive)
}

async function use(handle: SandboxHandle): Promise<string> {
  return handle.runCommand({ cmd: 'true' }).then(({ exitCode }) => `exit ${exitCode}`, codeOf)
}

function codeOf(error: unknown): string {
  return SandboxError.is(error) ? error.code : String(error)
}

async function untilGone(look: () => Promise<unknown>): Promise<void> {
  for (;;) {
    const code = await look().then(() => undefined, codeOf)
    if (code === 'not_found') return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** An engine that other processes call, one line of JSON for each call and each answer: see `egress-cage.ts`. */
import { createInterface } from 'node:readline'
import { EngineProvider } from '../engine-provider.ts'

const secrets = new Map<string, string>()
const provider = new EngineProvider({
  isolator: 'oci',
  ...JSON.parse(process.argv[2]!),
  secrets: (name: string) => secrets.get(name),
})

type Sandbox = Awaited<ReturnType<typeof provider.create>>
const handles = new Map<string, Sandbox>()

async function handle(id: string): Promise<Sandbox> {
  const known = handles.get(id) ?? (await provider.get(id))
  handles.set(id, known)
  return known
}

const calls: Record<string, (...args: never[]) => Promise<unknown>> = {
  async create(options: Parameters<typeof provider.create>[0]) {
    const sandbox = await provider.create(options)
    handles.set(sandbox.sandboxId, sandbox)
    return sandbox.sandboxId
  },
  async run(id: string, script: string) {
    const sandbox = await handle(id)
    return sandbox.runCommand({ cmd: 'sh', args: ['-c', script], timeoutMs: 30_000 })
  },
  setNetwork: async (id: string, network: never) => (await handle(id)).setNetwork(network),
  networkOf: async (id: string) => (await provider.get(id, { resume: false })).network,
  async events(id: string) {
    const all = []
    for await (const event of provider.egressEvents(id)) all.push(event)
    return all
  },
  async follow(id: string, part: string) {
    const signal = AbortSignal.timeout(20_000)
    for await (const event of provider.egressEvents(id, { follow: true, signal }))
      if (JSON.stringify(event).includes(part)) return event
    throw new Error(`no event with ${part}`)
  },
  stats: (id: string) => provider.egressStats(id),
  async setSecret(name: string, value: string) {
    secrets.set(name, value)
    await provider.refreshSecrets()
  },
  snapshot: async (id: string) => (await (await handle(id)).snapshot()).snapshotId,
  async fork(id: string) {
    const [fork] = await (await handle(id)).fork()
    if (fork instanceof Error) throw fork
    handles.set(fork!.sandboxId, fork!)
    return fork!.sandboxId
  },
  stop: async (id: string) => (await handle(id)).stop(),
  start: async (id: string) => (await handle(id)).start(),
  async destroy(id: string) {
    handles.delete(id)
    return provider.destroy(id)
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, args } = JSON.parse(line)
  const say = (answer: object) => process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`)
  calls[method]!(...(args as never[])).then(
    (value) => say({ value }),
    (error) => say({ error: { message: error.message, code: error.code, hint: error.hint } }),
  )
}
await provider.close()

/**
 * An engine on the world's host. Reads requests as lines of JSON and writes answers: `{ id, method, args }` and
 * `{ id, result }` or `{ id, error }`. The argument is the provider's options. Its sandboxes end with it.
 */
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { EngineProvider } from '@sandkasten/engine'
import type { CreateSandboxOpts, Network, RunCommandOptions } from '@sandkasten/sdk'

const options = JSON.parse(process.argv[2]!)
const provider = new EngineProvider(options)
type Sandbox = Awaited<ReturnType<typeof provider.create>>
const sandboxes = new Map<string, Sandbox>()
const sandbox = (id: string) => {
  const found = sandboxes.get(id)
  if (!found) throw new Error(`no sandbox ${id}`)
  return found
}

const methods = {
  async create(wanted: CreateSandboxOpts) {
    const made = await provider.create(wanted)
    sandboxes.set(made.sandboxId, made)
    return made.sandboxId
  },
  async run(id: string, command: RunCommandOptions) {
    const { stdout, stderr, exitCode } = await sandbox(id).runCommand(command)
    return { stdout, stderr, exitCode }
  },
  async events(id: string) {
    const found = []
    for await (const event of provider.egressEvents(id)) found.push(event)
    return found
  },
  async setNetwork(id: string, network: Network) {
    await sandbox(id).setNetwork(network)
  },
  async destroy(id: string) {
    sandboxes.delete(id)
    return provider.destroy(id)
  },
  /** Undefined if no gateway has run yet. */
  async gatewayFolder() {
    return controlSocket()?.replace(/\/control\.sock$/, '')
  },
  async gatewayPid() {
    const socket = connect(controlSocket() ?? '')
    socket.write('{"id":1,"op":"hello","version":1}\n')
    const [line] = await once(createInterface({ input: socket }), 'line')
    socket.destroy()
    return (JSON.parse(line).ok?.pid ?? JSON.parse(line).pid) as number
  },
}

function controlSocket(): string | undefined {
  return globSync(`${options.oci.runFolder}/**/control.sock`)[0]
}

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)

async function answer({ id, method, args }: { id: number; method: keyof typeof methods; args: never[] }) {
  try {
    const call = methods[method] as (...given: never[]) => Promise<unknown>
    say({ id, result: await call(...args) })
  } catch (error) {
    const { code, message, stack } = error as Error & { code?: string }
    say({ id, error: { code, message, stack } })
  }
}

export type EngineMethods = typeof methods

say({ ready: true })
for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line))
for (const id of sandboxes.keys()) await provider.destroy(id)
await provider.close()

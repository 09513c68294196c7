/** `run_command` over MCP, beside the SDK's own call of the same command in the same sandbox. */
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import type { Ours, Sandbox } from '../engine/subjects/ours.ts'
import { folderIn, type Workplace } from '../engine/workplace.ts'
import { sampleOf, type Turn, takeTurns, timed } from '../measure.ts'
import type { Report } from '../report.ts'
import { startWorker } from '../worker.ts'

const COMMAND = 'echo hello'
/** What a call over MCP takes longer: with the provider in the server’s process, and through a broker. */
export const ADDED = ['mcp.handle.added', 'mcp.broker.added'] as const
export const toolIds = ['sdk.command', 'mcp.handle', 'mcp.broker', ...ADDED] as const

interface Tools {
  readonly ours: Ours
  readonly place: Workplace
  readonly report: Report
  readonly rounds: number
  wants(id: string): boolean
}

export async function measureTools({ ours, place, report, wants, rounds }: Tools): Promise<void> {
  const ask = await startWorker(place.cleanup, new URL('./broker-worker.ts', import.meta.url), {
    args: [JSON.stringify(ours.engine), folderIn(place, 'registry')],
  })
  const { sandboxId, address, token } = JSON.parse((await ask('open')).text!)
  const sandbox = await ours.get(sandboxId)
  const remains = ours.remainsOf(sandbox)
  const clients: Client[] = []
  const connect = async (env: Record<string, string>) => {
    const client = await connected(env)
    clients.push(client)
    return client
  }
  try {
    const [handle, broker] = [
      await connect({ BENCH_ENGINE: JSON.stringify(ours.engine), BENCH_SANDBOX: sandboxId }),
      await connect({ BENCH_BROKER: address, BENCH_TOKEN: token }),
    ]
    const turns: Turn[] = [
      { id: 'sdk.command', samples: 20, measure: () => timed(() => command(sandbox)) },
      { id: 'mcp.handle', samples: 20, measure: () => timed(() => tool(handle)) },
      { id: 'mcp.broker', samples: 20, measure: () => timed(() => tool(broker)) },
    ]
    // `added` is the difference between two of these.
    const wanted = turns.filter(({ id }) => wants(id) || ADDED.some(wants))
    const values = await takeTurns(wanted, rounds, (id, error) => report.fail(id, error))
    for (const [id, found] of values) report.add(id, found)
    const own = values.get('sdk.command')
    for (const name of ['mcp.handle', 'mcp.broker']) {
      const over = values.get(name)
      if (!own || !over || !wants(`${name}.added`)) continue
      const [mine, plain] = [sampleOf(over), sampleOf(own)]
      report.add(`${name}.added`, { p50: mine.p50 - plain.p50, p95: mine.p95 - plain.p95, count: mine.count })
    }
  } finally {
    for (const client of clients) await client.close()
    await ask('close')
    remains.assertNone()
  }
}

async function command(sandbox: Sandbox): Promise<void> {
  const { exitCode, stdout } = await sandbox.runCommand({ cmd: 'bash', args: ['-c', COMMAND] })
  if (exitCode !== 0 || stdout !== 'hello\n')
    throw new Error(`The SDK’s call returned ${exitCode}: ${stdout}`)
}

async function tool(client: Client): Promise<void> {
  const result = await client.callTool({ name: 'run_command', arguments: { cmd: COMMAND } })
  const [first] = result.content
  if (first?.type !== 'text' || first.text !== 'exit=0\nhello\n')
    throw new Error(`run_command returned ${JSON.stringify(result)}`)
}

/** A server that the client starts as a process of its own, as agents do. It ends with the connection. */
async function connected(env: Record<string, string>): Promise<Client> {
  const client = new Client({ name: 'bench', version: '1.0.0' })
  const script = new URL('./mcp-server.ts', import.meta.url).pathname
  const args = [...process.execArgv, script]
  const options = { command: process.execPath, args, env: { PATH: process.env.PATH ?? '', ...env } }
  await client.connect(new StdioClientTransport(options))
  return client
}

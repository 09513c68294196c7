import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { brokerPlace } from '@sandkasten/mcp/broker'
import { engineAt } from '../../packages/cli/src/engine-place.ts'
import { bin, type Ran, sandkasten } from '../../packages/cli/test/helper.ts'
import { type Place, temporaryPlace } from '../../packages/cli/test/sandbox/place.ts'

/** A registry of its own with one sandbox of the engine, `web`, and a broker that agents start when they need it. */
export interface McpPlace extends Place {
  /** How an agent starts its side. */
  readonly server: {
    readonly command: string
    readonly args: string[]
    readonly env: Record<string, string>
  }
  /** Runs `sandkasten mcp …`. */
  mcp(args: readonly string[]): Promise<Ran>
  /** A new token of the sandbox. */
  token(): Promise<string>
  /** Destroys the sandbox at its provider, as a provider does when a sandbox times out. The registry does not know it. */
  lose(name: string): Promise<void>
  /** The broker that was started last. */
  brokerPid(): Promise<number | undefined>
}

export async function mcpPlace(
  args: readonly string[] = [],
  { create = [], env = {} }: { create?: readonly string[]; env?: Record<string, string> } = {},
): Promise<McpPlace> {
  const place = await temporaryPlace(env)
  const broker = brokerPlace(path.join(place.env.SANDKASTEN_HOME!, 'registry'))
  await place.ok(['create', 'web', '--yes', '--image', 'host', ...create])
  const brokerPid = async () => {
    const pid = Number(await readFile(broker.pid, 'utf8').catch(() => Number.NaN))
    return Number.isInteger(pid) && isAlive(pid) ? pid : undefined
  }
  const mcp: McpPlace['mcp'] = (more) => sandkasten(['mcp', ...more], place.env, { cwd: place.home })
  return {
    ...place,
    brokerPid,
    mcp,
    token: async () => (await mcp(['token', 'web'])).stdout.trim(),
    async lose(name) {
      const { providerSandboxId } = await place.json<{ providerSandboxId: string }>(['show', name])
      const folder = path.join(place.env.SANDKASTEN_HOME!, 'engine')
      const provider = engineAt({ folder }, {})
      await provider.destroy(providerSandboxId)
      await provider.close()
    },
    server: {
      command: process.execPath,
      args: [bin, 'mcp', '--sandbox', 'web', ...args],
      env: {
        ...place.env,
        PATH: process.env.PATH!,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '',
      },
    },
    async close() {
      const pid = await brokerPid()
      if (pid !== undefined) await end(pid)
      await place.close()
    },
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Ends a process that is not a child of this one, and waits until it is gone. */
export async function end(pid: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  process.kill(pid, signal)
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20))
}

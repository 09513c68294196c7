/** The parts of the seed's program that it names but does not show: its database, its settings, its opencode client. */
import { exec } from 'node:child_process'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import type { SandboxProvider } from '@sandkasten/sdk'

export const execAsync = promisify(exec)
export const [hranaHost, hranaPort, lockPort] = ['127.0.0.1', 8080, 29_999]
export const [botToken, channelId, sandboxName, sandboxDbId] = ['token', 'channel', 'mine', 1]
/** The test sets these before it imports a snippet. */
export const projectDir = process.env.SEED_PROJECT ?? ''
export const rows: unknown[] = []

export const prisma = {
  sandboxes: {
    create: async (row: object) => void rows.push(row),
    update: async (row: object) => void rows.push(row),
  },
}

/** The engine, for real, with all options as the seed gives them. The test has imported the image. */
export async function getProviderForChannel(_channelId: string): Promise<SandboxProvider> {
  return new EngineProvider({
    isolator: 'oci',
    root: process.env.SEED_ROOT,
    runtimes: { node24: 'seed' },
  })
}

export function createOpencodeClient({ baseUrl }: { baseUrl: string }) {
  return { health: async () => (await fetch(`${baseUrl}/api/health`)).json() }
}

export async function waitForHealth(
  url: string,
  { maxAttempts, intervalMs }: { maxAttempts: number; intervalMs: number },
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const healthy = await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    )
    if (healthy) return
    if (attempt === maxAttempts) throw new Error(`${url} is not healthy.`)
    await new Promise((resolve) => setTimeout(resolve, intervalMs / 10))
  }
}

import { type ProcessCore, type SandboxCore, type SandboxEndpoint, SandboxError } from '@sandkasten/sdk'
import type { ServerSpec } from '../agents/index.ts'
import type { Inspection } from '../binary/inspect.ts'
import type { Settings } from '../bootstrap/settings.ts'
import { headersOf } from './endpoint.ts'
import { FollowedProcess } from './follow.ts'
import { endProcess, findGenerations } from './generations.ts'
import { checkHealth, wrongPassword } from './health.ts'
import { becomesHealthy } from './ready.ts'

/** A server that runs, or the number of the next one to start. */
export type Found =
  | { readonly password: string; readonly version: string | undefined; readonly process?: ProcessCore }
  | { readonly password?: undefined; readonly next: number }

/** Looks for a server that this package has started, or that has the caller’s password. Never replaces one unasked. */
export async function findServer(
  handle: SandboxCore,
  server: ServerSpec,
  endpoint: SandboxEndpoint,
  sandbox: Inspection,
  settings: Settings,
  signal: AbortSignal,
): Promise<Found> {
  const { agent, port, password, restart } = settings
  const { next, running } = await findGenerations(
    handle,
    { agent: agent.name, port, start: sandbox.start },
    signal,
  )
  if (running && restart) {
    await endProcess(running, signal)
    return { next }
  }
  if (!running && !sandbox.listening) return { next }
  if (running && password === undefined) throw passwordNeeded(handle, settings)
  if (password === undefined) throw portInUse(handle, settings)
  const headers = headersOf(endpoint, server.user, password)
  if (running) {
    const followed = new FollowedProcess(running, server.listening)
    try {
      const health = await becomesHealthy(handle, endpoint.url, headers, followed, settings, signal)
      return { password, version: checkedVersion(handle, health.version, settings), process: running }
    } finally {
      followed.close()
    }
  }
  const answer = await checkHealth(endpoint.url, headers, signal)
  if (answer.state === 'refused') throw wrongPassword(endpoint.url, answer.status)
  if (answer.state === 'unhealthy') throw portInUse(handle, settings)
  return { password, version: checkedVersion(handle, answer.health.version, settings) }
}

export function portInUse(handle: SandboxCore, { port, agent }: Settings, tail = ''): SandboxError {
  return new SandboxError('conflict', `Port ${port} of the sandbox is used by another program.${tail}`, {
    provider: handle.provider,
    sandboxId: handle.sandboxId,
    details: { port },
    hint: `End that program, or pass another \`port\` for ${agent.title}.`,
  })
}

/** A server of another version may have another database, so it is replaced only if the caller asks. */
export function checkedVersion(
  handle: SandboxCore,
  version: string | undefined,
  { agent, version: wanted }: Settings,
): string | undefined {
  if (version === undefined || version === wanted) return version
  throw new SandboxError(
    'conflict',
    `The server in the sandbox is ${agent.title} ${version}, not ${wanted}.`,
    {
      provider: handle.provider,
      sandboxId: handle.sandboxId,
      details: { version },
      hint: 'Pass its version, or `restart: true` to replace it.',
    },
  )
}

export function passwordNeeded(handle: SandboxCore, { agent, port }: Settings): SandboxError {
  return new SandboxError(
    'conflict',
    `${agent.title} is running on port ${port} of the sandbox, with a password.`,
    {
      provider: handle.provider,
      sandboxId: handle.sandboxId,
      details: { port },
      hint: 'Pass the `password` that the server was started with, or `restart: true` to replace the server.',
    },
  )
}

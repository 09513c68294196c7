import { type ProcessCore, type SandboxCore, type SandboxEndpoint, SandboxError } from '@sandkasten/sdk'
import { inspect } from '../binary/inspect.ts'
import { provideBinary } from '../binary/provide.ts'
import { createClient } from '../client.ts'
import { endpointOf, headersOf } from '../server/endpoint.ts'
import { findServer } from '../server/find.ts'
import { endProcess } from '../server/generations.ts'
import { startServer } from '../server/start.ts'
import type { AgentServer } from './options.ts'
import { nameOf, type Settings } from './settings.ts'
import { requireTools } from './tools.ts'

/** Finds the agent’s server in the sandbox, or starts it. */
export async function serve(
  handle: SandboxCore,
  settings: Settings,
  signal: AbortSignal,
): Promise<AgentServer> {
  const { agent, version, port, cwd, placesEnv: env, report, redact, newPassword, binary } = settings
  const server = agent.server!
  report({ stage: 'inspect', message: 'Looks into the sandbox.' })
  const endpoint = await endpointOf(handle, port, signal)
  const sandbox = await inspect(handle, { agent, cwd, port, env, signal })
  const result = (facts: {
    version?: string | undefined
    password: string
    reused: boolean
    process?: ProcessCore
  }) => {
    report({ stage: 'ready', message: `${agent.title} ${facts.version ?? version} is ready.` })
    return agentServer(handle, endpoint, settings, sandbox.directory, facts)
  }
  const found = await findServer(handle, server, endpoint, sandbox, settings, signal)
  if (found.password !== undefined) return result({ ...found, reused: true })
  requireTools(handle, agent, sandbox.tools)
  const provided = await provideBinary(handle, sandbox, {
    agent,
    version,
    binary,
    env,
    redact,
    signal,
    report,
  })
  const started = await startServer(handle, {
    server,
    endpoint,
    sandbox,
    settings,
    binary: provided.path,
    generation: found.next,
    signal,
  })
  return result({ ...started, password: newPassword, reused: false })
}

function agentServer(
  handle: SandboxCore,
  { url, headers: ofEndpoint }: SandboxEndpoint,
  { agent, version, port }: Settings,
  directory: string,
  facts: { version?: string | undefined; password: string; reused: boolean; process?: ProcessCore },
): AgentServer {
  const { password, reused, process } = facts
  const headers = headersOf({ url, headers: ofEndpoint }, agent.server!.user, password)
  return {
    agent: nameOf(agent),
    version: facts.version ?? version,
    url,
    port,
    password,
    headers,
    directory,
    reused,
    client: () => createClient({ url, headers, directory }),
    async stop({ signal = AbortSignal.timeout(stopMs) } = {}) {
      if (process) return endProcess(process, signal)
      throw new SandboxError(
        'unsupported',
        `The provider “${handle.provider}” does not find the server’s process.`,
        {
          provider: handle.provider,
          details: { ability: 'reattach' },
          hint: 'Stop the sandbox.',
        },
      )
    },
  }
}

const stopMs = 20_000

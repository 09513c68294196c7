import type { SandboxCore } from '@sandkasten/sdk'
import { type Agent, type AgentName, agentOf, type ServerAgentName } from '../agents/index.ts'
import { inspect } from '../binary/inspect.ts'
import { provideBinary } from '../binary/provide.ts'
import { withDeadline } from './deadline.ts'
import type { AgentServer, BootstrapOpencodeOptions, BootstrapOptions, InstalledAgent } from './options.ts'
import { serve } from './serve.ts'
import { nameOf, programEnvironment, type Settings, settingsOf } from './settings.ts'
import { requireTools } from './tools.ts'
import { inTurn, knownPassword, rememberPassword } from './turns.ts'

/**
 * Makes opencode ready in a sandbox: reuses a server that runs, or installs the pinned version and starts one with a
 * password. Calls for the same sandbox wait for each other.
 */
export function bootstrapOpencode(
  handle: SandboxCore,
  options: BootstrapOpencodeOptions = {},
): Promise<AgentServer> {
  const { opencodeVersion: version, ...rest } = options
  return bootstrapAgent(handle, 'opencode', { ...rest, ...(version === undefined ? {} : { version }) })
}

/** Makes an agent ready in a sandbox, and starts its server if it has one. */
export function bootstrapAgent(
  handle: SandboxCore,
  agent: ServerAgentName,
  options?: BootstrapOptions,
): Promise<AgentServer>
export function bootstrapAgent(
  handle: SandboxCore,
  agent: AgentName,
  options?: BootstrapOptions,
): Promise<AgentServer | InstalledAgent>
export async function bootstrapAgent(
  handle: SandboxCore,
  name: AgentName,
  options: BootstrapOptions = {},
): Promise<AgentServer | InstalledAgent> {
  const agent = agentOf(name)
  if (!agent.server) return installAgent(handle, agent, options).then(({ installed }) => installed)
  const key = `${handle.id} ${agent.name} ${options.port ?? ''}`
  return inTurn(key, async (before: AgentServer | undefined) => {
    const known = knownPassword(handle, key) ?? before?.password
    const settings = settingsOf(handle, agent, options, known)
    const server = await withDeadline(
      `The start of ${agent.title}`,
      settings.deadlineMs,
      options.signal,
      (signal) => serve(handle, settings, signal),
    )
    rememberPassword(handle, key, server.password)
    return server
  })
}

export interface Installation {
  readonly installed: InstalledAgent
  /** For the agent’s program. */
  readonly env: Record<string, string>
  readonly settings: Settings
}

/** Finds or installs the program of an agent, and starts nothing. */
export async function installAgent(
  handle: SandboxCore,
  agent: Agent,
  options: BootstrapOptions,
): Promise<Installation> {
  const settings = settingsOf(handle, agent, options)
  const { version, cwd, port, placesEnv, redact, report, binary } = settings
  return withDeadline(
    `The installation of ${agent.title}`,
    settings.deadlineMs,
    options.signal,
    async (signal) => {
      report({ stage: 'inspect', message: 'Looks into the sandbox.' })
      const sandbox = await inspect(handle, { agent, cwd, port, env: placesEnv, signal })
      requireTools(handle, agent, sandbox.tools)
      const provided = await provideBinary(handle, sandbox, {
        agent,
        version,
        binary,
        env: placesEnv,
        redact,
        signal,
        report,
      })
      report({ stage: 'ready', message: `${agent.title} ${version} is ready.` })
      return {
        installed: { agent: nameOf(agent), version, binary: provided.path, directory: sandbox.directory },
        env: programEnvironment(settings, sandbox.folder),
        settings,
      }
    },
  )
}

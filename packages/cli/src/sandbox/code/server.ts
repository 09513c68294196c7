import { randomBytes } from 'node:crypto'
import {
  type AgentName,
  type AgentServer,
  agents,
  bootstrapAgent,
  type InstalledAgent,
} from '@sandkasten/opencode'
import { SandboxError } from '@sandkasten/sdk'
import { directoryOf, type Place, type Setup } from './place.ts'
import type { Memory } from './remembered.ts'
import { type AgentSettings, hashOf } from './settings.ts'

export interface ReadyAgent {
  readonly name: AgentName
  readonly settings: AgentSettings
  /** Of an agent with a server. */
  readonly server?: AgentServer
  readonly installed?: InstalledAgent
}

/** Makes the agent ready: finds its server with the stored password, or starts one. */
export async function startAgent(
  setup: Setup,
  place: Place,
  settings: AgentSettings,
  memory: Memory,
): Promise<ReadyAgent> {
  const { plan, name, signal, onProgress } = setup
  const { hold } = place
  const options = {
    ...settings,
    cwd: directoryOf(hold),
    signal,
    onProgress: ({ message }: { message: string }) =>
      onProgress({ step: 'start', message: inSteps(message) }),
  }
  const agent = plan.agent
  if (!('server' in agents[agent]) || agents[agent].server === undefined)
    return {
      name: agent,
      settings,
      installed: (await bootstrapAgent(hold.handle, agent, options)) as InstalledAgent,
    }
  const hash = hashOf(settings)
  const before = await memory.read()
  const password = await passwordOf(setup)
  try {
    const server = (await bootstrapAgent(hold.handle, agent, {
      ...options,
      password,
      restart: before.server !== undefined && before.server !== hash,
    })) as AgentServer
    await memory.add({ server: hash })
    return { name: agent, settings, server }
  } catch (error) {
    if (!SandboxError.is(error, 'unauthenticated')) throw error
    throw new SandboxError(
      'unauthenticated',
      `A server in ${name} refuses the password that is stored for it.`,
      {
        hint: `End it with sandkasten sandbox stop ${name}, and run this command again.`,
        cause: error,
      },
    )
  }
}

/** Stored before the server starts, so that a crash in between leaves no server with an unknown password. */
async function passwordOf({ opened, name }: Setup): Promise<string> {
  const stored = await opened.sandboxes.opencodePassword(name)
  if (stored !== undefined) return stored
  const password = randomBytes(24).toString('base64url')
  await opened.sandboxes.setOpencodePassword(name, password)
  return password
}

/** `Looks into the sandbox.` → `looks into the sandbox`, as other steps are written. */
function inSteps(message: string): string {
  return `${message.charAt(0).toLowerCase()}${message.slice(1).replace(/\.$/, '')}`
}

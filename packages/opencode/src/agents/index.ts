import { SandboxError } from '@sandkasten/sdk'
import type { Agent } from './agent.ts'
import { claude } from './claude.ts'
import { opencode } from './opencode.ts'

export type { Agent, AgentContext, Headless, ServerSpec } from './agent.ts'

/** One row per agent. Codex, Gemini and others are further rows. */
export const agents = { opencode, claude } as const satisfies Readonly<Record<string, Agent>>

export type AgentName = keyof typeof agents

/** Agents that have a server. */
export type ServerAgentName = 'opencode'

export function agentOf(name: string): Agent {
  if (Object.hasOwn(agents, name)) return agents[name as AgentName]
  throw new SandboxError('invalid_argument', `There is no agent “${name}”.`, {
    hint: `Use one of ${Object.keys(agents).join(', ')}.`,
  })
}

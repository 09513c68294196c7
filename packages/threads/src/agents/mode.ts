import { type Ability, type Capabilities, SandboxError } from '@sandkasten/sdk'
import type { AgentMode } from '../spec/agent.ts'

export type AgentModeSetting = AgentMode | 'auto'

export interface ModeChoice {
  readonly mode: AgentMode
  /** One sentence, for people. */
  readonly reason: string
}

export interface ModeFacts {
  readonly provider: string
  readonly capabilities: Capabilities
  /** The memory of the sandbox, if it is known. */
  readonly memoryMb?: number
}

/** What opencode inside needs from the sandbox: a way to its server, to find it again, and a disk that stays. */
const needed: ReadonlyArray<readonly [Ability, string]> = [
  ['ports', 'reach a port of the sandbox'],
  ['reattach', 'find a running server again'],
  ['stop', 'keep sessions when the sandbox stops'],
]
const leastMemoryMb = 1_000

/** Decides where the agent of a thread runs: by what the sandbox can do, and never by the provider’s name. */
export function chooseMode(facts: ModeFacts, setting: AgentModeSetting = 'auto'): ModeChoice {
  const { provider, capabilities, memoryMb } = facts
  if (setting === 'home') return { mode: 'home', reason: 'The setting says so.' }
  if (setting === 'inside') {
    if (capabilities.ports === undefined)
      throw new SandboxError(
        'unsupported',
        `The provider “${provider}” cannot reach a port of the sandbox, so opencode cannot run inside.`,
        { provider, details: { ability: 'ports' }, hint: 'Use the setting `home` or `auto`.' },
      )
    return { mode: 'inside', reason: 'The setting says so.' }
  }
  const missing = needed.find(([ability]) => capabilities[ability] === undefined)
  if (missing) return { mode: 'home', reason: `The provider “${provider}” cannot ${missing[1]}.` }
  if (memoryMb !== undefined && memoryMb < leastMemoryMb)
    return { mode: 'home', reason: `The sandbox has ${memoryMb} MB of memory, and opencode needs 1 GB.` }
  return { mode: 'inside', reason: 'The sandbox can run opencode and keep its sessions.' }
}

import { MemoryProvider, type MemoryProviderOptions, realClock } from '../../providers/memory/index.ts'
import { SharedState } from '../../providers/memory/shared-state.ts'
import type { SandboxProvider } from '../../spec/index.ts'
import { brokenCommandOptions } from './command-options.ts'
import { brokenCommands } from './commands.ts'
import { brokenFinding } from './finding.ts'
import { brokenIdle } from './idle.ts'
import { brokenLives } from './incarnations.ts'
import { brokenInput } from './input.ts'
import { brokenKills } from './kills.ts'
import { brokenNetwork } from './network.ts'
import { brokenStreams } from './streams.ts'
import { brokenUsers } from './users.ts'

/**
 * Providers with one fault each, based on the memory provider. They prove that the kit can fail: a behaviour that no
 * broken provider violates may be impossible to violate.
 */
export interface BrokenProvider {
  readonly name: string
  /** The fault as a user sees it. */
  readonly what: string
  /** Ids of the behaviours that must fail. */
  readonly caughtBy: readonly [string, ...string[]]
  readonly options?: MemoryProviderOptions
  make(working: SandboxProvider, sharedState: SharedState): SandboxProvider
}

export const brokenProviders: readonly BrokenProvider[] = [
  ...brokenCommands,
  ...brokenCommandOptions,
  ...brokenStreams,
  ...brokenLives,
  ...brokenKills,
  ...brokenUsers,
  ...brokenFinding,
  ...brokenInput,
  ...brokenNetwork,
  ...brokenIdle,
]

/** Creates a working memory provider and the broken one based on it. */
export function setUp(broken: Pick<BrokenProvider, 'options' | 'make'>): {
  working: MemoryProvider
  provider: SandboxProvider
} {
  const sharedState = new SharedState({ clock: realClock, ...broken.options })
  const working = new MemoryProvider(broken.options, sharedState)
  return { working, provider: broken.make(working, sharedState) }
}

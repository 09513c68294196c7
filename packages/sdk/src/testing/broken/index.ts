import { MemoryProvider, type MemoryProviderOptions, realClock } from '../../providers/memory/index.ts'
import { SharedState } from '../../providers/memory/shared-state.ts'
import type { SandboxProvider } from '../../spec/index.ts'
import { brokenCommands } from './commands.ts'
import { brokenLives } from './incarnations.ts'
import { brokenKills } from './kills.ts'
import { brokenStreams } from './streams.ts'

/**
 * Providers that are wrong in one way each, made from the memory provider. They show that the kit can fail: a
 * behaviour that no broken provider trips over may be one that nothing can trip over.
 */
export interface BrokenProvider {
  readonly name: string
  /** What its user would suffer. */
  readonly what: string
  /** Ids of behaviours that must fail on it. */
  readonly caughtBy: readonly [string, ...string[]]
  readonly options?: MemoryProviderOptions
  make(working: SandboxProvider, sharedState: SharedState): SandboxProvider
}

export const brokenProviders: readonly BrokenProvider[] = [
  ...brokenCommands,
  ...brokenStreams,
  ...brokenLives,
  ...brokenKills,
]

/** A working memory provider and the broken one made from it. */
export function setUp(broken: Pick<BrokenProvider, 'options' | 'make'>): {
  working: MemoryProvider
  provider: SandboxProvider
} {
  const sharedState = new SharedState({ clock: realClock })
  const working = new MemoryProvider(broken.options, sharedState)
  return { working, provider: broken.make(working as unknown as SandboxProvider, sharedState) }
}

import { MemoryProvider, type MemoryProviderOptions, realClock } from '../../providers/memory/index.ts'
import { World } from '../../providers/memory/world.ts'
import type { SandboxProvider } from '../../spec/index.ts'
import { brokenCommands } from './commands.ts'
import { brokenKills } from './kills.ts'
import { brokenLives } from './lives.ts'
import { brokenStreams } from './streams.ts'

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
  make(working: SandboxProvider, world: World): SandboxProvider
}

export const brokenProviders: readonly BrokenProvider[] = [
  ...brokenCommands,
  ...brokenStreams,
  ...brokenLives,
  ...brokenKills,
]

/** Creates a working memory provider and the broken one based on it. */
export function setUp(broken: Pick<BrokenProvider, 'options' | 'make'>): {
  working: MemoryProvider
  provider: SandboxProvider
} {
  const world = new World({ clock: realClock })
  const working = new MemoryProvider(broken.options, world)
  return { working, provider: broken.make(working as unknown as SandboxProvider, world) }
}

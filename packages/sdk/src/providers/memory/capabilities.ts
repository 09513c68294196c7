import type { Ability, AbilityLevel } from '../../spec/index.ts'

/** `shell` is there only when you script one: ask with `supports(sandbox, 'shell')`. Sandboxes never stop when idle. */
export type MemoryCapabilities = {
  readonly [A in Exclude<Ability, 'shell' | 'terminal' | 'activity'>]: AbilityLevel
} & { readonly shell?: AbilityLevel }

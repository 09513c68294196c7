import type { Ability, AbilityLevel } from '../../spec/index.ts'

/** `shell` is available only if you script one: check `supports(sandbox, 'shell')`. Sandboxes never stop when idle. */
export type MemoryCapabilities = {
  readonly [A in Exclude<Ability, 'shell' | 'terminal' | 'activity'>]: AbilityLevel
} & { readonly shell?: AbilityLevel }

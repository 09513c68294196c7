/** The abilities of a sandbox with a runner, on every isolator. */
export interface EngineCapabilities {
  readonly stdin: 'native'
  readonly reattach: 'native'
  readonly shell: 'native'
  readonly terminal: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  /** `emulated` for an ordinary account without a delegated control group. */
  readonly pause: 'native' | 'emulated'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly lifetime: 'native'
}

export const engineCapabilities: EngineCapabilities = Object.freeze({
  stdin: 'native',
  reattach: 'native',
  shell: 'native',
  terminal: 'native',
  ports: 'native',
  watch: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
  lifetime: 'native',
})

/**
 * A daemon keeps disks as images and can copy them. Podman mixes up owners if each sandbox has ids of its own; then
 * snapshots and forks are not declared.
 */
export function dockerCapabilities({ userns }: { readonly userns?: string } = {}): EngineCapabilities {
  if (userns === undefined) return engineCapabilities
  const { snapshot: _, fork: __, ...rest } = engineCapabilities
  return Object.freeze(rest) as EngineCapabilities
}

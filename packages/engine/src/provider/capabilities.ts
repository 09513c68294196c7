/** The abilities of a sandbox with a runner, on every isolator. */
export interface EngineCapabilities {
  readonly stdin: 'native'
  readonly mergedOutput: 'native'
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
  /** Absent where the isolator cannot enforce network policies. */
  readonly egress: 'native'
}

export const engineCapabilities: EngineCapabilities = Object.freeze({
  stdin: 'native',
  mergedOutput: 'native',
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
  egress: 'native',
})

/**
 * A daemon keeps disks as images and can copy them. Podman mixes up owners if each sandbox has ids of its own; then
 * snapshots and forks are not declared.
 */
export function dockerCapabilities({ userns }: { readonly userns?: string } = {}): EngineCapabilities {
  return userns === undefined ? engineCapabilities : without(engineCapabilities, 'snapshot', 'fork')
}

export function without(
  capabilities: EngineCapabilities,
  ...missing: readonly (keyof EngineCapabilities)[]
): EngineCapabilities {
  const rest = Object.entries(capabilities).filter(([name]) => !missing.some((one) => one === name))
  return Object.freeze(Object.fromEntries(rest)) as unknown as EngineCapabilities
}

/** What a sandbox behind a runner can do, whatever isolates it. */
export interface EngineCapabilities {
  readonly stdin: 'native'
  readonly reattach: 'native'
  readonly shell: 'native'
  readonly terminal: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly lifetime: 'native'
}

/** A daemon keeps disks as images: it copies them too. */
export interface DockerCapabilities extends EngineCapabilities {
  readonly snapshot: 'native'
  readonly fork: 'native'
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
  lifetime: 'native',
})

export const dockerCapabilities: DockerCapabilities = Object.freeze({
  ...engineCapabilities,
  snapshot: 'native',
  fork: 'native',
})

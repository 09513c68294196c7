export interface DaemonCapabilities {
  readonly stdin: 'native'
  readonly mergedOutput: 'native'
  readonly ports: 'native'
  readonly reattach: 'native'
  readonly shell: 'native'
  readonly terminal: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly lifetime: 'native'
  readonly egress: 'native'
}

export const daemonCapabilities: DaemonCapabilities = Object.freeze({
  stdin: 'native',
  mergedOutput: 'native',
  ports: 'native',
  reattach: 'native',
  shell: 'native',
  terminal: 'native',
  watch: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
  lifetime: 'native',
  egress: 'native',
})

export interface DaytonaCapabilities {
  readonly stdin: 'emulated'
  readonly mergedOutput: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly terminal: 'emulated'
  readonly ports: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly activity: 'native'
  readonly egress: 'native'
}

/**
 * No `lifetime`: the vendor stops idle sandboxes (`activity`) and deletes old ones. It cannot stop a sandbox in use at a
 * given time and keep its disk. The shell is ours, because the vendor's sessions cannot end one command and keep the shell.
 */
export const daytonaCapabilities: DaytonaCapabilities = Object.freeze({
  stdin: 'emulated',
  mergedOutput: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  terminal: 'emulated',
  ports: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
  activity: 'native',
  egress: 'native',
})

/** What the sandboxes of Daytona can do through its SDK. */
export interface DaytonaCapabilities {
  readonly stdin: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly terminal: 'emulated'
  readonly ports: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly activity: 'native'
}

/**
 * No `lifetime`: the vendor stops what is idle (`activity`) and deletes what is too old, but nothing of it ends a sandbox that is in use and keeps its disk.
 * The shell is ours: the vendor's sessions cannot end one command and keep the shell.
 */
export const daytonaCapabilities: DaytonaCapabilities = Object.freeze({
  stdin: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  terminal: 'emulated',
  ports: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
  activity: 'native',
})

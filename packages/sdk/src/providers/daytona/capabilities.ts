/** What the sandboxes of Daytona can do through its SDK. */
export interface DaytonaCapabilities {
  readonly stdin: 'emulated'
  readonly reattach: 'emulated'
  readonly ports: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
}

/**
 * No `lifetime`: the vendor stops what is idle and deletes what is too old, but nothing of it ends a sandbox that is in use and keeps its disk.
 * No `shell` and no `terminal` of ours: the vendor's sessions put no bounds on output, and its terminals cannot be read again.
 */
export const daytonaCapabilities: DaytonaCapabilities = Object.freeze({
  stdin: 'emulated',
  reattach: 'emulated',
  ports: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
})

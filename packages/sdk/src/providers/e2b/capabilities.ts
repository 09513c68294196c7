/** The abilities of E2B's sandboxes through its SDK. Its daemon keeps no output; our agent in the sandbox does. */
export interface E2BCapabilities {
  readonly stdin: 'native'
  readonly mergedOutput: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly terminal: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly lifetime: 'native'
  readonly egress: 'native'
}

export const e2bCapabilities: E2BCapabilities = Object.freeze({
  stdin: 'native',
  mergedOutput: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
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

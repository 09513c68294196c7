/** The abilities of E2B's sandboxes through its SDK. Its daemon keeps no output, so a process cannot be re-attached with its history. */
export interface E2BCapabilities {
  readonly stdin: 'native'
  readonly shell: 'emulated'
  readonly terminal: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly pause: 'native'
  readonly snapshot: 'native'
  readonly fork: 'native'
  readonly lifetime: 'native'
}

export const e2bCapabilities: E2BCapabilities = Object.freeze({
  stdin: 'native',
  shell: 'emulated',
  terminal: 'native',
  ports: 'native',
  watch: 'native',
  stop: 'native',
  pause: 'native',
  snapshot: 'native',
  fork: 'native',
  lifetime: 'native',
})

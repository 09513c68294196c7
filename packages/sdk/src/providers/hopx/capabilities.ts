export interface HopxCapabilities {
  readonly stdin: 'emulated'
  readonly mergedOutput: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly terminal: 'emulated'
  readonly ports: 'native'
  readonly pause: 'native'
  readonly lifetime: 'native'
}

/**
 * The vendor's commands return all output at their end, so our agent in the sandbox runs programs. No `stop`: a stopped
 * sandbox does not start again. The vendor has no snapshots and no forks, and sets the network only at create.
 */
export const hopxCapabilities: HopxCapabilities = Object.freeze({
  stdin: 'emulated',
  mergedOutput: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  terminal: 'emulated',
  ports: 'native',
  pause: 'native',
  lifetime: 'native',
})

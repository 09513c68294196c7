/** The abilities of Vercel's sandboxes. `emulated` ones use commands in the sandbox, or stop it. */
export interface VercelCapabilities {
  readonly stdin: 'emulated'
  readonly mergedOutput: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly ports: 'native'
  readonly stop: 'native'
  /** The vendor stops a sandbox to save it. We start it again, but its programs have ended. */
  readonly snapshot: 'emulated'
  readonly fork: 'emulated'
  readonly lifetime: 'native'
  readonly egress: 'native'
}

export const vercelCapabilities: VercelCapabilities = Object.freeze({
  stdin: 'emulated',
  mergedOutput: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  ports: 'native',
  stop: 'native',
  snapshot: 'emulated',
  fork: 'emulated',
  lifetime: 'native',
  egress: 'native',
})

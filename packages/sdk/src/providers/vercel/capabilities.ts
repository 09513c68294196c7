/** What a sandbox of Vercel can do. What is `emulated` is built from commands in the sandbox, or from stopping it. */
export interface VercelCapabilities {
  readonly stdin: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly ports: 'native'
  readonly stop: 'native'
  /** The vendor stops a sandbox to save it; we start it again, and what ran in it has ended. */
  readonly snapshot: 'emulated'
  readonly fork: 'emulated'
  readonly lifetime: 'native'
}

export const vercelCapabilities: VercelCapabilities = Object.freeze({
  stdin: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  ports: 'native',
  stop: 'native',
  snapshot: 'emulated',
  fork: 'emulated',
  lifetime: 'native',
})

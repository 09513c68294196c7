/** What a sandbox on an SSH host can do; the same with the runner and without. */
export const sshCapabilities = Object.freeze({
  stdin: 'native',
  reattach: 'native',
  shell: 'native',
  /** By way of script(1), or the runner. */
  terminal: 'native',
  /** A port of this machine's loopback, carried through the connection. */
  ports: 'emulated',
  stop: 'native',
  lifetime: 'native',
} as const)

export type SshCapabilities = typeof sshCapabilities

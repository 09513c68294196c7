/** What a sandbox on an SSH host can do. */
export const sshCapabilities = Object.freeze({
  stdin: 'native',
  reattach: 'native',
  shell: 'native',
  /** By way of script(1). */
  terminal: 'emulated',
  /** A port of this machine's loopback, carried through the connection. */
  ports: 'emulated',
  stop: 'native',
  lifetime: 'native',
} as const)

export type SshCapabilities = typeof sshCapabilities

/** What a sandbox on an SSH host can do. */
export const sshCapabilities = Object.freeze({
  stdin: 'native',
  reattach: 'native',
  shell: 'native',
  /** By way of script(1); a real one where our runner is used, which is known only when the host was asked. */
  terminal: 'emulated',
  /** A port of this machine's loopback, carried through the connection. */
  ports: 'emulated',
  stop: 'native',
  lifetime: 'native',
} as const)

export type SshCapabilities = typeof sshCapabilities

export const sshCapabilities = Object.freeze({
  stdin: 'native',
  mergedOutput: 'native',
  reattach: 'native',
  shell: 'native',
  /** Uses script(1). With our runner on the host, terminals are native. */
  terminal: 'emulated',
  /** A loopback port on this machine, forwarded through the SSH connection. */
  ports: 'emulated',
  stop: 'native',
  lifetime: 'native',
} as const)

export type SshCapabilities = typeof sshCapabilities

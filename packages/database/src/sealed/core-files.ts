import { writeFileSync } from 'node:fs'

/**
 * Leaves the memory of this process out of its core files, because it holds what is decrypted. Programs that this
 * process starts inherit the setting. Only Linux has it.
 */
export function leaveMemoryOutOfCores(): void {
  if (process.platform !== 'linux') return
  try {
    writeFileSync('/proc/self/coredump_filter', '0')
  } catch {
    // No /proc here, or a kernel without cores: SECURITY.md says what remains to be done.
  }
}

import { SandboxError } from '@sandkasten/sdk'

/** Says what is wrong and what to change, and gives the exit code: 126 and 127 as shells use them, else 125. */
export function reportError(error: unknown): number {
  if (isOfTheSystem(error)) {
    console.error(`sandkasten: ${error.message}`)
    return error.code === 'EACCES' || error.code === 'EPERM' ? 126 : 125
  }
  if (!SandboxError.is(error)) {
    console.error(`sandkasten: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return 125
  }
  console.error(`sandkasten: ${error.message}`)
  console.error(`  ${error.hint}`)
  if (error.code === 'command_not_found') return 127
  return error.code === 'permission_denied' ? 126 : 125
}

/** A file that is not there, a disk that is full: people's own business, told in the system's words and without where in our code. */
function isOfTheSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error && !SandboxError.is(error)
}

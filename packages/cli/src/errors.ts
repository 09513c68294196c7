import { SandboxError } from '@sandkasten/sdk'
import { widthOf, wrap } from './format.ts'

/** Says what is wrong and what to change. Returns the exit code: 126 and 127 as shells use them, else 125. */
export function reportError(error: unknown): number {
  if (isOfTheSystem(error)) {
    say(`sandkasten: ${error.message}`)
    return error.code === 'EACCES' || error.code === 'EPERM' ? 126 : 125
  }
  if (!SandboxError.is(error)) {
    console.error(`sandkasten: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return 125
  }
  say(`sandkasten: ${error.message}`)
  say(`  ${error.hints.cli}`)
  if (error.code === 'command_not_found') return 127
  return error.code === 'permission_denied' ? 126 : 125
}

/** A line for people on stderr; on a terminal no word is broken at its edge. */
export function say(text: string): void {
  console.error(wrap(text, widthOf(process.stderr), '  '))
}

/** A missing file or a full disk on this machine: the system's message says enough, and our stack does not help. */
function isOfTheSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error && !SandboxError.is(error)
}

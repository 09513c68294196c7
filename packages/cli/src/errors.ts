import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { widthOf, wrap } from './format.ts'

/**
 * Prints the error and its hint. Returns the exit code: 126 and 127 as in shells, otherwise 125.
 * `hints` replace the default hints, not those of a specific error.
 */
export function reportError(error: unknown, hints: Partial<Record<SandboxErrorCode, string>> = {}): number {
  if (isSystemError(error)) {
    say(`sandkasten: ${error.message}`)
    return error.code === 'EACCES' || error.code === 'EPERM' ? 126 : 125
  }
  if (!SandboxError.is(error)) {
    console.error(`sandkasten: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return 125
  }
  say(`sandkasten: ${error.message}`)
  const usual = new SandboxError(error.code, '').hints.cli
  say(`  ${error.hints.cli === usual ? (hints[error.code] ?? usual) : error.hints.cli}`)
  if (error.code === 'command_not_found') return 127
  return error.code === 'permission_denied' ? 126 : 125
}

/** Prints a line to stderr, wrapped between words on a terminal. */
export function say(text: string): void {
  console.error(wrap(text, widthOf(process.stderr), '  '))
}

/** An error of the operating system, such as a missing file or a full disk: its message is enough without a stack. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error && !SandboxError.is(error)
}

/**
 * Problems are data: a position, a sentence, a fix. Nothing here prints or exits, so that the command line, the Vite
 * plugin and tests can each present them.
 */

export type Severity = 'error' | 'warning' | 'note'

/** A position in a file; line and column start at 1. */
export interface Place {
  file: string
  line?: number
  column?: number
}

export interface Problem {
  severity: Severity
  /** Stable, for `--json` and tests; do not parse the message. */
  code: string
  message: string
  place?: Place
  fix?: string
}

/** Thrown if nothing may be written. `problems` has every error, not only the first. */
export class CloudflareSyncError extends Error {
  readonly problems: Problem[]

  constructor(problems: Problem[]) {
    super(problems.map(formatProblem).join('\n'))
    this.name = 'CloudflareSyncError'
    this.problems = problems
  }
}

/** `src/server/shell.sandbox.ts:3:5 error: … ` and the fix on its own line. */
export function formatProblem(problem: Problem): string {
  const head = problem.place ? `${formatPlace(problem.place)} ` : ''
  const fix = problem.fix ? `\n  fix: ${problem.fix.replaceAll('\n', '\n       ')}` : ''
  return `${head}${problem.severity}: ${problem.message}${fix}`
}

export function formatPlace(place: Place): string {
  if (place.line === undefined) return place.file
  return `${place.file}:${place.line}:${place.column ?? 1}`
}

export function placeAt(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { file, line, column: offset - before.lastIndexOf('\n') }
}

export function throwIfErrors(problems: Problem[]): Problem[] {
  const errors = problems.filter((problem) => problem.severity === 'error')
  if (errors.length > 0) throw new CloudflareSyncError(errors)
  return problems
}

import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import type { ExecuteResult, Opening } from '../executor.ts'

/** The texts that a model reads. Names and output come from the sandbox, so every text is bounded. */

export function resultText(
  result: ExecuteResult,
  { timeout, max }: { timeout: number; max: number },
): string {
  const { exitCode, signal, stdout, stderr, timedOut, truncated, oom } = result
  const notes = [
    timedOut && `killed after ${timeout} ms; pass a larger timeoutMs, or run it in the background`,
    oom && 'out of memory',
    signal !== undefined && !timedOut && `killed by ${signal}`,
    truncated && 'output shortened; write it to a file and read that in parts',
  ].filter((note) => typeof note === 'string')
  const status = `exit=${exitCode}${notes.map((note) => `\n(${note})`).join('')}`
  const parts = [
    ['stdout', stdout],
    ['stderr', stderr],
  ].flatMap(([name, text]) => (text === '' ? [] : [`--- ${name} ---\n${shortened(text!, max / 2)}`]))
  return [status, ...parts].join('\n')
}

export function fileText(
  path: string,
  content: string,
  { startLine = 1, lineCount, max }: { startLine?: number; lineCount?: number; max: number },
): string {
  if (content.includes('\0'))
    return `Error: ${path} is not a text file. Inspect it with exec, for example: file, od.`
  if (content === '') return `(${path} is empty)`
  const lines = content.split('\n')
  if (lines.at(-1) === '') lines.pop()
  if (startLine > lines.length) return `Error: ${path} has only ${lines.length} lines.`
  const shown: string[] = []
  let size = 0
  for (const line of lines.slice(
    startLine - 1,
    lineCount === undefined ? undefined : startLine - 1 + lineCount,
  )) {
    if (shown.length > 0 && size + line.length > max) break
    shown.push(shortened(line, max))
    size += line.length + 1
  }
  const end = startLine - 1 + shown.length
  const text = shown.join('\n')
  if (startLine === 1 && end === lines.length) return text
  const more = end < lines.length ? `; pass startLine: ${end + 1} to go on` : ''
  return `${text}\n[lines ${startLine} to ${end} of ${lines.length}${more}]`
}

export function listText(path: string, names: readonly string[], max: number): string {
  if (names.length === 0) return `(${path} is empty)`
  const shown: string[] = []
  let size = 0
  for (const name of names) {
    // A name may contain line breaks; quoted, it stays one line.
    const line = /[\p{Cc}\p{Cf}\u2028\u2029]/u.test(name) ? JSON.stringify(name) : name
    size += line.length + 1
    if (size > max) break
    shown.push(line)
  }
  const left = names.length - shown.length
  return left === 0 ? shown.join('\n') : [...shown, `[${left} more names]`].join('\n')
}

export function openingText({ files }: Opening): string {
  const what = {
    new: '',
    kept: 'Its files are as they were.',
    restored: 'Its files are those of the last snapshot; later changes are lost.',
    lost: 'All files and installed packages are lost; create again what you need.',
  }[files]
  return `Note: The sandbox had stopped and was started again. Programs in the background have ended. ${what}`
}

/** Throws errors that a model cannot correct. */
export function errorText(error: unknown): string {
  if (!SandboxError.is(error) || !(error.code in hints)) throw error
  // A provider's own refusal concerns the account or its options, not the model's input.
  const isRefusal = error.code === 'forbidden' || error.code === 'invalid_argument'
  if (isRefusal && error.provider !== undefined) throw error
  const hasEnded = error.code === 'not_running' || error.code === 'interrupted'
  if (hasEnded && !error.details.started) throw error
  const hint = hints[error.code]
  return `Error: ${shortened(error.message, 2000)}${hint === undefined ? ` ${error.hint}` : ` ${hint}`}`
}

/** What a model can do. Other codes are thrown. `undefined`: the error's own hint fits. */
const hints: Partial<Record<SandboxErrorCode, string | undefined>> = {
  invalid_argument: 'Correct the input.',
  path_outside: 'Use a path below the working directory.',
  forbidden: undefined,
  file_not_found: 'List the folder with list_files.',
  command_not_found: 'Install the program, or use another one.',
  cwd_not_found: 'Create the folder first.',
  file_exists: 'Remove it first, or use another path.',
  not_a_directory: 'A part of the path is a file. List its folder with list_files.',
  is_a_directory: 'The path is a folder. List it with list_files.',
  directory_not_empty: 'Remove its content first.',
  permission_denied: 'Use a path below the working directory, or see the owner with exec: ls -l.',
  too_large: 'Read a part of it with exec, for example: head -c 10000.',
  disk_full: 'Remove files that are not needed.',
  not_running: 'The command may have done part of its work. The next call starts the sandbox again.',
  interrupted: 'The command may have done part of its work. The next call uses the new sandbox.',
}

function shortened(text: string, max: number): string {
  if (text.length <= max) return text
  const half = Math.max(1, Math.floor(max / 2))
  const [head, tail] = [text.slice(0, half), text.slice(-half)]
  // Do not split a surrogate pair.
  const first = /[\ud800-\udbff]$/.test(head) ? head.slice(0, -1) : head
  const last = /^[\udc00-\udfff]/.test(tail) ? tail.slice(1) : tail
  return `${first}\n[… ${text.length - first.length - last.length} characters left out …]\n${last}`
}

import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { hasEnded, type SandboxSource, type SandboxState } from '../sources/index.ts'
import { failure, oneLine, type ToolResult } from '../tools/index.ts'

/** What the model reads: what failed, what it can do, and the state of the sandbox. */
export async function errorResult(error: unknown, source: SandboxSource): Promise<ToolResult> {
  const text = errorText(error)
  const state = await stateAfter(error, source)
  if (!state) return failure(`${text}\nThe state of the sandbox is unknown.`)
  const problem = state.problem === undefined ? '' : ` (${oneLine(state.problem)})`
  return failure(`${text}\nThe sandbox “${oneLine(state.name)}” is ${state.status}${problem}.`)
}

export function errorText(error: unknown): string {
  if (!SandboxError.is(error))
    return `The tool failed: ${oneLine(error instanceof Error ? error.message : String(error), 500)}`
  const hint = hints[error.code] ?? error.hints.cli
  const started = error.details.started ? ' The command may have done part of its work.' : ''
  const message = oneLine(error.message, 2_000)
  return `${message}${/[.!?…]$/.test(message) ? '' : '.'}${started} ${hint}`
}

const stateMs = 3_000
const pauseMs = 100

/** The provider is asked only if the sandbox may have ended, because that takes longer. */
async function stateAfter(error: unknown, source: SandboxSource): Promise<SandboxState | undefined> {
  const refresh = hasEnded(error)
  const signal = AbortSignal.timeout(stateMs)
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), stateMs).unref())
  for (;;) {
    const state = await Promise.race([source.state({ refresh, signal }).catch(() => undefined), late])
    // Programs end before the stop is complete, and until then the sandbox is said to run.
    const isStopping = SandboxError.is(error, 'not_running') && state?.status === 'running'
    if (!isStopping || signal.aborted) return state
    await sleep(pauseMs)
  }
}

/** What a model can do. For other codes, the hint for people at a command line fits best. */
const hints: Partial<Record<SandboxErrorCode, string>> = {
  invalid_argument: 'Correct the input.',
  path_outside: 'Use a path below the project folder.',
  file_not_found: 'List the folder with list_files.',
  cwd_not_found: 'Create the folder first.',
  not_a_directory: 'A part of the path is a file. List its folder with list_files.',
  is_a_directory: 'The path is a folder. List it with list_files.',
  permission_denied: 'See the owner with run_command: ls -l.',
  too_large: 'Read a part of it with run_command, for example: head -c 10000.',
  disk_full: 'Remove files that are not needed.',
  not_running: 'The next call starts the sandbox again.',
  interrupted: 'The next call uses the sandbox that was started again.',
  connection_lost: 'The next call connects again.',
  unavailable: 'Wait a moment, then try again.',
  unsupported: 'The provider of this sandbox cannot do that.',
}

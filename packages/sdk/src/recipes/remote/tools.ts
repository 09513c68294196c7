import { SandboxError } from '../../errors.ts'
import type { CallOptions, CommandResult, RunCommandOptions } from '../../spec/index.ts'
import type { RecipeSandbox } from '../types.ts'

const names = ['tar', 'mv', 'xargs', 'sha256sum', 'shasum', 'git', 'rm', 'rmdir', 'df'] as const

export type Tool = (typeof names)[number]

/** The programs that the sandbox has. Empty without a POSIX shell: then everything uses the files API. */
export async function findTools(sandbox: RecipeSandbox, { signal }: CallOptions): Promise<ReadonlySet<Tool>> {
  const script = `for tool in ${names.join(' ')}; do if command -v "$tool" >/dev/null 2>&1; then echo "$tool"; fi; done`
  try {
    const result = await sandbox.runCommand({ cmd: 'sh', args: ['-c', script], signal })
    if (result.exitCode !== 0) return new Set()
    const found = result.stdout.split(/\r?\n/)
    return new Set(names.filter((name) => found.includes(name)))
  } catch (error) {
    if (SandboxError.is(error, 'command_not_found', 'permission_denied', 'unsupported')) return new Set()
    throw error
  }
}

/** Runs a program of the sandbox with untranslated messages. The caller judges the exit code. */
export function run(sandbox: RecipeSandbox, options: RunCommandOptions): Promise<CommandResult> {
  return sandbox.runCommand({ maxOutputBytes: 2 ** 29, ...options, env: { LC_ALL: 'C', ...options.env } })
}

/** Runs the sandbox's git, whose output is untrusted. */
export function remoteGit(
  sandbox: RecipeSandbox,
  cwd: string,
  args: readonly string[],
  options: Pick<RunCommandOptions, 'stdin' | 'signal'> = {},
): Promise<CommandResult> {
  const env = { GIT_TERMINAL_PROMPT: '0', GIT_OPTIONAL_LOCKS: '0' }
  return run(sandbox, { cmd: 'git', args: ['-c', 'core.fsmonitor=false', ...args], cwd, env, ...options })
}

import { encode } from '../shared/output/bytes.ts'
import { HeadTail } from '../shared/output/collect.ts'
import { partialBytes, withOutput } from '../shared/output/partial.ts'
import { override } from '../shared/override.ts'
import type { SandboxShell, ShellExecOptions, ShellResult } from '../spec/index.ts'

/** Adds the output so far to the error of a command that was cancelled. */
export function withPartialOutput(shell: SandboxShell): SandboxShell {
  const { attach } = shell
  return override(shell, {
    exec: (command, options) => observed(options, (given) => shell.exec(command, given)),
    ...(attach && {
      attach: (execId, options) => observed(options, (given) => attach.call(shell, execId, given)),
    }),
  } satisfies Partial<SandboxShell>)
}

async function observed(
  options: ShellExecOptions | undefined,
  exec: (options: ShellExecOptions | undefined) => Promise<ShellResult>,
): Promise<ShellResult> {
  // Without a signal, nothing cancels the command.
  if (!options?.signal) return exec(options)
  const { onOutput } = options
  const kept = new HeadTail(partialBytes)
  try {
    return await exec({
      ...options,
      onOutput: (text) => {
        kept.push(encode(text))
        return onOutput?.(text)
      },
    })
  } catch (error) {
    throw withOutput(error, { output: kept.text() })
  }
}

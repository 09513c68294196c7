import { encode } from '../shared/output/bytes.ts'
import { HeadTail } from '../shared/output/collect.ts'
import { partialBytes, withOutput } from '../shared/output/partial.ts'
import { override } from '../shared/override.ts'
import type { SandboxShell, ShellExecOptions, ShellResult } from '../spec/index.ts'
import { checkKnown } from './validate.ts'

/** Checks the options of commands, and adds the output so far to the error of a cancelled one. */
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
  checkKnown(options ?? {}, execOptions, 'exec()')
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

const execOptions: ReadonlyArray<keyof ShellExecOptions> = [
  'timeoutMs',
  'onOutput',
  'maxOutputBytes',
  'outputBudget',
  'execId',
  'onFound',
  'signal',
]

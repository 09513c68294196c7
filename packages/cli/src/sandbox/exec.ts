import { SandboxError, supports } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { surviveOutputFailures } from '../output.ts'
import { streamCommand } from '../stream.ts'
import { attachTerminal } from '../terminal.ts'
import { holding, inProject } from './hold.ts'

export interface ExecOptions {
  env?: Readonly<Record<string, string>>
  workdir?: string
  /** In seconds. */
  timeout?: number
  interactive?: boolean
  tty?: boolean
  thread?: string
}

/** Runs a program in a sandbox. Returns its exit code. */
export function exec(name: string, command: readonly string[], options: ExecOptions): Promise<number> {
  // Only the program: arguments may be secret.
  const purpose = `exec ${command[0]!.slice(0, 60)}`
  return holding(name, { purpose, thread: options.thread }, async (hold) => {
    const { handle } = hold
    const cwd = inProject(hold, options.workdir)
    // A closed reader (`| head`) ends the command first.
    surviveOutputFailures()
    try {
      if (!options.tty)
        return await streamCommand(handle, command, {
          ...options,
          cwd,
          forwardsInput: options.interactive || !process.stdin.isTTY,
        })
      if (supports(handle, 'terminal'))
        return await attachTerminal(handle, command, { ...options, workdir: cwd })
    } catch (error) {
      if (SandboxError.is(error, 'command_not_found') && command.length === 1 && /\s/.test(command[0]!))
        say(`sandkasten: a command line needs a shell: sandkasten sandbox exec ${name} -- sh -c '…'`)
      throw error
    }
    throw new SandboxError('unsupported', `The provider ${hold.record.provider} has no terminals.`, {
      hint: 'Leave --tty out.',
    })
  })
}

import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { ShellResult } from '../spec/threads.ts'
import { inFolder } from './in-folder.ts'

/** One command line in the folder of the thread. */
export function shell(
  context: Context,
  threadId: string,
  command: string,
  options: CallOptions = {},
): Promise<ShellResult> {
  const { shellBytes, shellMs, messageBytes } = context.limits
  if (command.trim() === '' || Buffer.byteLength(command) > messageBytes)
    throw new SandboxError('invalid_argument', 'The command is empty or too long.')
  return inFolder(context, threadId, { purpose: 'shell', ...options }, async ({ hold, cwd, signal }) => {
    const result = await hold.handle.runCommand({
      cmd: 'sh',
      args: ['-c', command],
      cwd,
      signal,
      timeoutMs: shellMs,
      maxOutputBytes: shellBytes,
      output: 'merged',
    })
    const ending = result.timedOut ? `\nThe command was ended after ${shellMs / 1000} seconds.` : ''
    return {
      exitCode: result.exitCode,
      output: `${result.stdout}${result.stderr}${ending}`,
      isCut: result.truncated,
    }
  })
}

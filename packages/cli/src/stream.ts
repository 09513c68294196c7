import type { ProcessCore, SandboxCore } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { brokenPipeCode, write } from './output.ts'
import { codeOf, forwardSignals } from './steer.ts'

export interface StreamOptions {
  cwd?: string
  env?: Readonly<Record<string, string>>
  /** In seconds. */
  timeout?: number
  /** Pass our stdin to the command. */
  forwardsInput: boolean
}

/**
 * Runs a command in a sandbox with our stdin, stdout, stderr and signals, and returns its exit code. A slow reader of
 * our output slows the command, and a closed one (`| head`) silently ends it.
 */
export async function streamCommand(
  sandbox: Pick<SandboxCore, 'spawn'>,
  [cmd, ...args]: readonly string[],
  { cwd, env, timeout, forwardsInput }: StreamOptions,
): Promise<number> {
  const command = await sandbox.spawn({
    cmd: cmd!,
    args,
    cwd,
    env,
    timeoutMs: timeout && timeout * 1000,
    stdin: forwardsInput ? process.stdin : undefined,
  })
  const stopForwarding = forwardSignals((signal) => command.kill(signal))
  // The failed write reports the error. Without a listener, the same error would end this process before the cleanup.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  try {
    for await (const event of command.output()) {
      if (event.type === 'exit') return codeOf(event, timeout)
      await write(event.type === 'stdout' ? process.stdout : process.stderr, event.data)
    }
    throw new SandboxError('connection_lost', 'The sandbox ended before the command did.')
  } catch (error) {
    if (!isBrokenPipe(error)) throw error
    await end(command)
    return brokenPipeCode
  } finally {
    stopForwarding()
    process.stdin.destroy()
  }
}

/** The sandbox may live on, and without a reader its command would, too. */
async function end(command: ProcessCore): Promise<void> {
  await command.kill('SIGTERM').catch(() => {})
  const ended = command.wait({ collect: false, timeoutMs: 1_000 }).then(() => true)
  if (!(await ended.catch(() => false))) await command.kill('SIGKILL').catch(() => {})
}

function isBrokenPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'EPIPE'
}

import { SandboxError } from '../../errors.ts'
import type { CallOptions, ProcessExit, ProcessStatus } from '../../spec/index.ts'
import { abortable } from './abort.ts'

/** Asks for a process's status until it has ended, at growing intervals. For vendors without a call that waits. */
export async function pollExit(
  process: { readonly execId: string; status(call: CallOptions): Promise<ProcessStatus> },
  { signal }: CallOptions,
): Promise<ProcessExit> {
  for (let pauseMs = 20; ; pauseMs = Math.min(1000, pauseMs * 1.5)) {
    const { running, exit } = await process.status({ signal })
    if (exit) return exit
    if (!running)
      throw new SandboxError('interrupted', `The exit of the process ${process.execId} is unknown.`, {
        hint: 'Its sandbox or its supervisor ended first. Check what the program did, and start it again.',
      })
    await abortable(new Promise((resolve) => setTimeout(resolve, pauseMs)), signal, 'Waiting for the process')
  }
}

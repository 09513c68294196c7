import { SandboxError } from '../../errors.ts'
import type { Program } from '../../providers/memory/machine/program.ts'
import type { SharedState } from '../../providers/memory/shared-state.ts'
import type { SandboxHandle, SandboxProvider, SandboxShell, ShellExecOptions } from '../../spec/index.ts'
import { breakProvider } from './wrap.ts'

export interface ShellTasks {
  readonly current: Program | undefined
  readonly all: readonly Program[]
}

/**
 * A provider whose shells understand only a program of the kit with its arguments, after optional assignments, and
 * `echo`, which always prints `yes`. The caller decides how a command is ended early.
 */
export function brokenShell(
  working: SandboxProvider,
  sharedState: SharedState,
  end: (tasks: ShellTasks) => void,
): SandboxProvider {
  return breakProvider(working, {
    sandbox: (real) => ({ openShell: async () => shellOf(real, sharedState, end) }),
  })
}

function shellOf(
  real: SandboxHandle,
  sharedState: SharedState,
  end: (tasks: ShellTasks) => void,
): SandboxShell {
  const all: Program[] = []
  let current: Program | undefined
  const stop = () => end({ current, all })

  async function exec(line: string, { timeoutMs, signal, onOutput }: ShellExecOptions = {}) {
    const facts = { cwd: '/', truncated: false, durationMs: 0, shellRestarted: false }
    if (line.startsWith('echo')) return { ...facts, exitCode: 0, output: 'yes\n', timedOut: false }
    const [cmd = '', ...args] = [...line.replace(/^\w+=\w+; /, '').matchAll(/'([^']*)'|(\S+)/g)].map(
      ([, quoted, plain]) => quoted ?? plain ?? '',
    )
    const process = await real.spawn({ cmd, args })
    current = sharedState.sandboxes.get(real.sandboxId)?.processes.get(process.execId)?.program
    if (current) all.push(current)
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      stop()
    }, timeoutMs ?? 60_000)
    signal?.addEventListener('abort', stop)
    let output = ''
    for await (const event of process.output()) {
      if (event.type === 'exit') break
      output += new TextDecoder().decode(event.data)
      onOutput?.(output)
    }
    clearTimeout(timer)
    current = undefined
    if (signal?.aborted) throw new SandboxError('aborted', 'The command was cancelled.')
    return { ...facts, exitCode: 0, output, timedOut }
  }

  return {
    name: 'shell',
    cwd: '/',
    exec,
    close: async () => {
      stop()
      return true
    },
  }
}

import { SandboxError } from '../errors.ts'
import { hasRuntime, noRuntime, type Programs, runtimeNames } from '../shared/runtime.ts'
import type { CallOptions } from '../spec/index.ts'
import { OutputCollector } from './collect.ts'
import type { SandboxDriver } from './driver.ts'

/** Throws `unsupported` unless the sandbox has the runtime. For hosts whose programs only a sandbox can run. */
export async function needGuestRuntime(
  provider: string,
  sandbox: Pick<SandboxDriver, 'spawn'>,
  runtime: string,
  call: CallOptions,
): Promise<void> {
  const [node, python] = await Promise.all(
    ['node', 'python3'].map((program) => versionOf(sandbox, program, call)),
  )
  const programs: Programs = { node, python }
  if (!hasRuntime(programs, runtime))
    throw noRuntime(provider, runtime, runtimeNames(programs), 'Sandboxes use the programs of the host.')
}

async function versionOf(
  sandbox: Pick<SandboxDriver, 'spawn'>,
  cmd: string,
  call: CallOptions,
): Promise<string | undefined> {
  const spec = { cmd, args: ['--version'], env: {}, timeoutMs: 10_000, outputBufferBytes: 65_536 } as const
  try {
    const process = await sandbox.spawn({ ...spec, stdin: 'empty', detached: false, reading: true }, call)
    const { exitCode, stdout } = await new OutputCollector({ maxBytes: 65_536 }).read(process, call.signal)
    return exitCode === 0 ? /^(?:v|Python )(\d+(?:\.\d+)*)\s*$/.exec(stdout)?.[1] : undefined
  } catch (error) {
    if (SandboxError.is(error, 'command_not_found', 'permission_denied')) return undefined
    throw error
  }
}

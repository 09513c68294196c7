import { type RunCommandOptions, SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { accountOf } from '../../http/response-memory.ts'
import { fitMemory } from '../../sessions/index.ts'
import { parsed } from '../shared/request.ts'
import { type Call, type Entry, found, using } from './entry.ts'

const strings = z.record(z.string(), z.string())
const seconds = z.number().nonnegative().optional()

const executeBody = z.object({
  command: z.string().min(1),
  cwd: z.string().optional(),
  envs: strings.optional(),
  timeout: seconds,
})

const codeBody = z.object({
  code: z.string(),
  language: z.enum(['python', 'javascript', 'typescript']),
  argv: z.array(z.string()).optional(),
  envs: strings.optional(),
  timeout: seconds,
})

/** The most output of a command in a response. */
const mostOutputBytes = 16 * 1024 * 1024
/** Linux limits the length of an argument. A longer script is passed on stdin. */
const mostArgumentBytes = 100_000

/** Runs bash, or sh in images without bash. stderr goes to stdout, as the vendor returns it. */
const runner = 'exec 2>&1; if [ -x /bin/bash ]; then exec /bin/bash "$@"; else exec /bin/sh "$@"; fi'

export function processRoutes(entry: Entry): void {
  entry.add('POST', '/toolbox/:id/process/execute', 'exec', async (call) => {
    const body = parsed(executeBody, call.body)
    const long = Buffer.byteLength(body.command) > mostArgumentBytes
    const args = long ? ['-s'] : ['-c', body.command]
    return run(call, body, {
      cmd: '/bin/sh',
      args: ['-c', runner, 'sh', ...args],
      stdin: long ? body.command : undefined,
    })
  })

  entry.add('POST', '/toolbox/:id/process/code-run', 'exec', async (call) => {
    const body = parsed(codeBody, call.body)
    const argv = body.argv ?? []
    // Code goes to stdin: it may be too long for an argument, and arguments are visible in the process list.
    const command =
      body.language === 'python'
        ? { cmd: 'python3', args: ['-u', '-', ...argv] }
        : {
            cmd: 'node',
            args: [
              ...(body.language === 'typescript' ? ['--input-type=module-typescript'] : []),
              '-',
              ...argv,
            ],
          }
    const merged = {
      cmd: '/bin/sh',
      args: ['-c', 'exec 2>&1; exec "$@"', 'sh', command.cmd, ...command.args],
    }
    return run(call, body, { ...merged, stdin: body.code })
  })
}

async function run(
  call: Call,
  given: { cwd?: string; envs?: Record<string, string>; timeout?: number },
  command: Pick<RunCommandOptions, 'cmd' | 'args' | 'stdin'>,
): Promise<{ exitCode: number; result: string }> {
  const { services } = call.place
  const timeoutMs = timeoutOf(given.timeout, services.config.defaults.max_exec_timeout_ms)
  await found(call)
  services.metrics.count('sandkasten_commands_total', { kind: 'run' })
  const account = accountOf(services.sessions.memory, call.request, call.reply)
  const options = {
    ...command,
    cwd: given.cwd || undefined,
    env: given.envs,
    timeoutMs,
    maxOutputBytes: mostOutputBytes,
    outputBudget: account,
    signal: call.signal,
  }
  try {
    const result = await using(call, ({ sandbox }) => sandbox.runCommand(options))
    const maxBytes = services.config.max_result_mb * 1_048_576
    const { exitCode, stdout, stderr, timedOut } = await fitMemory(account, result, maxBytes)
    if (!timedOut) return { exitCode, result: stdout + stderr }
  } catch (error) {
    // For the vendor, a command that cannot start is a result, not an error.
    if (!SandboxError.is(error, 'command_not_found', 'cwd_not_found')) throw error
    return { exitCode: -1, result: error.message }
  }
  throw new SandboxError('timeout', `command execution timeout after ${timeoutMs / 1000} s`, {
    details: { daytonaCode: 'PROCESS_EXECUTION_TIMEOUT' },
  })
}

/** Zero or undefined means the configured maximum. */
function timeoutOf(seconds: number | undefined, most: number): number {
  if (!seconds) return most
  if (seconds * 1000 <= most) return seconds * 1000
  throw new SandboxError('invalid_argument', `timeout exceeds the limit of ${most / 1000} s`, {
    hint: 'Use a session with runAsync, or raise defaults.max_exec_timeout_ms.',
  })
}

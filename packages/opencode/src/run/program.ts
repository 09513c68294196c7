import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Headless } from '../agents/index.ts'
import type { InstalledAgent } from '../bootstrap/options.ts'
import type { AgentEvent } from './events.ts'

export interface ProgramRun {
  readonly handle: SandboxCore
  readonly headless: Extract<Headless, { through: 'program' }>
  readonly installed: InstalledAgent
  readonly env: Readonly<Record<string, string>>
  readonly prompt: string
  readonly model: string | undefined
  readonly sessionId: string | undefined
  readonly signal: AbortSignal
}

/** The agent prints longer lines for files that it read; they are no events of ours. */
const mostLine = 8 * 1024 * 1024
const mostStderr = 2000

/** The prompt is the program’s input: arguments are limited, and visible to every process of the sandbox. */
export async function* runProgram(run: ProgramRun): AsyncGenerator<AgentEvent, void> {
  const { handle, headless, installed, env, prompt, model, sessionId, signal } = run
  const options = {
    ...(model === undefined ? {} : { model }),
    ...(sessionId === undefined ? {} : { sessionId }),
  }
  const process = await handle.spawn({
    cmd: installed.binary,
    args: headless.args(options),
    cwd: installed.directory,
    env,
    stdin: prompt,
    signal,
  })
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  let line = ''
  let stderr = ''
  let hasResult = false
  for await (const event of process.output({ signal })) {
    if (event.type === 'exit') {
      if (hasResult) return
      const how = event.signal ?? `exit code ${event.exitCode}`
      throw new SandboxError(
        'provider_error',
        `The agent ended with ${how} and no answer. ${stderr.trim()}`,
        {
          provider: handle.provider,
          sandboxId: handle.sandboxId,
          details: { exitCode: event.exitCode },
        },
      )
    }
    const text = decoders[event.type].decode(event.data, { stream: true })
    if (event.type === 'stderr') {
      stderr = (stderr + text).slice(-mostStderr)
      continue
    }
    const lines = (line + text).split('\n')
    line = lines.pop()!.slice(0, mostLine)
    for (const one of lines.flatMap((whole) => headless.read(whole))) {
      hasResult ||= one.type === 'result'
      yield one
    }
  }
  throw new SandboxError('connection_lost', 'The output of the agent ended before the agent did.', {
    provider: handle.provider,
    sandboxId: handle.sandboxId,
  })
}

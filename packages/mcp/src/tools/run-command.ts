import { type ProcessExit, SandboxError, supports } from '@sandkasten/sdk'
import { z } from 'zod'
import { afterStart, type OpenSandbox } from '../sources/index.ts'
import { CommandOutput } from './command-output.ts'
import { cmdInput, count, cwdInput, inSandbox, shellCommand } from './inputs.ts'
import { limits } from './limits.ts'
import { defineTool, textResult } from './tool.ts'

export const runCommand = defineTool({
  name: 'run_command',
  title: 'Run command',
  description:
    'Run a shell command in the sandbox and wait for its end. Returns the exit code and the output. Each command is a new shell: cd and variables do not carry over to the next command, files do. Long output loses its middle; the result names a file in the sandbox that has all of it. For servers and other programs that keep running, use start_process.',
  input: z.object({
    cmd: cmdInput,
    cwd: cwdInput,
    timeoutMs: count(
      limits.maxTimeoutMs,
      `Kill the command after this many milliseconds. Default ${limits.timeoutMs}.`,
    ).optional(),
  }),
  readOnly: false,
  workMs: ({ timeoutMs = limits.timeoutMs }) => timeoutMs + limits.callMs,
  async run({ cmd, cwd, timeoutMs = limits.timeoutMs }, { use, progress }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      const startedAt = Date.now()
      const process = await handle.spawn({
        ...shellCommand(cmd),
        cwd: inSandbox(sandbox, cwd ?? '.'),
        timeoutMs,
        signal,
        ...(supports(handle, 'mergedOutput') && { output: 'merged' }),
      })
      const output = new CommandOutput(sandbox)
      const beat = setInterval(() => {
        const seconds = Math.round((Date.now() - startedAt) / 1000)
        progress(`running for ${seconds} s${output.lastLine === '' ? '' : `: ${output.lastLine}`}`)
      }, progressMs)
      try {
        const exit = await follow(process, output, signal)
        return resultOf(exit, { timeoutMs, ...(await output.end()) })
      } catch (error) {
        if (!signal.aborted) await process.kill('SIGKILL').catch(() => {})
        throw afterStart(error)
      } finally {
        clearInterval(beat)
      }
    })
  },
})

const progressMs = 2_000

async function follow(
  process: Awaited<ReturnType<OpenSandbox['handle']['spawn']>>,
  output: CommandOutput,
  signal: AbortSignal,
): Promise<ProcessExit> {
  for await (const event of process.output({ signal })) {
    if (event.type === 'exit') {
      // A command that was cancelled has ended because of that.
      signal.throwIfAborted()
      return event
    }
    await output.push(event)
  }
  throw new SandboxError('connection_lost', 'The connection was lost while the command ran.', {
    details: { started: true },
    hint: 'The command may have done part of its work. Look at its effects before you run it again.',
  })
}

interface Collected {
  readonly timeoutMs: number
  readonly text: string
  readonly truncated: boolean
  readonly file?: string
  readonly note?: string
}

function resultOf(exit: ProcessExit, { timeoutMs, text, file, note }: Collected) {
  const { exitCode, signal, timedOut, oom } = exit
  const notes = [
    timedOut && `killed after ${timeoutMs} ms; pass a larger timeoutMs, or use start_process`,
    oom && 'out of memory',
    signal !== undefined && !timedOut && `killed by ${signal}`,
    note !== undefined && `output shortened; ${note}`,
  ].filter((line) => typeof line === 'string')
  const status = [`exit=${exitCode}`, ...notes.map((line) => `(${line})`)].join('\n')
  return textResult(text === '' ? status : `${status}\n${text}`, {
    exitCode,
    ...(signal !== undefined && { signal }),
    ...(timedOut && { timedOut }),
    ...(file !== undefined && { outputFile: file }),
  })
}

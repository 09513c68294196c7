import { spawn } from 'node:child_process'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { throwIfAborted } from '@sandkasten/sdk/provider'
import { shown } from './reference.ts'

export interface Program {
  readonly cmd: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** The command that installs it. */
  readonly install: string
  /** Called with each line of its standard error. */
  readonly onLine?: (line: string) => void
}

/** Runs a tool and resolves to its standard output. `use` can read the output as a stream instead. */
export async function runProgram<T = Buffer>(
  program: Program,
  use?: (stdout: NodeJS.ReadableStream) => Promise<T>,
): Promise<T> {
  const { cmd, args, signal } = program
  const child = spawn(cmd, [...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...program.env },
    // The tool has its own process group, so that its children end with it.
    detached: true,
  })
  let patience: NodeJS.Timeout | undefined
  const stop = () => {
    endGroup(child.pid, 'SIGTERM')
    patience ??= setTimeout(() => endGroup(child.pid, 'SIGKILL'), 10_000)
  }
  signal?.addEventListener('abort', stop)
  if (signal?.aborted) stop()
  const lastLines: string[] = []
  let rest = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      program.onLine?.(line)
      if (line.trim() !== '') lastLines.push(line)
      if (lastLines.length > 12) lastLines.shift()
    }
  })
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code ?? 1))
  })
  ended.catch(() => {})
  const used = (use ?? collect)(child.stdout) as Promise<T>
  used.catch(stop)
  try {
    const code = await ended
    throwIfAborted(signal, cmd)
    if (code !== 0) throw failure(cmd, code, [...lastLines, rest])
    return await used
  } catch (error) {
    // Prefer the error of `use`: it is the cause of the exit status.
    await used.catch((reason) => {
      if (SandboxError.is(reason) && SandboxError.is(error, 'provider_error')) throw reason
    })
    if (errnoOf(error) !== 'ENOENT') throw translate(error, cmd)
    throw new SandboxError('unavailable', `${cmd} is not installed.`, {
      cause: error,
      hint: `Run: ${program.install}`,
    })
  } finally {
    clearTimeout(patience)
    signal?.removeEventListener('abort', stop)
  }
}

function endGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // The process has exited.
  }
}

function failure(cmd: string, code: number, lines: readonly string[]): SandboxError {
  const said = lines.filter((line) => line.trim() !== '').slice(-4)
  return new SandboxError('provider_error', `${cmd} failed (${code}): ${said.map(shown).join(' ')}`, {
    details: { exitCode: code },
  })
}

async function collect(stdout: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of stdout) {
    length += chunk.length
    if (length > 16 * 1024 * 1024)
      throw new SandboxError('too_large', 'The output of a program exceeds its limit.')
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}

import type { FilesDriver } from '../../../core/driver.ts'
import { SandboxError } from '../../../errors.ts'
import type { ProcessSignal, SandboxFilesCore } from '../../../spec/index.ts'
import type { Pipe } from './stdin-pipe.ts'

/** A scripted program of the memory provider. The returned number is its exit code; any other value means 0. */
export type CommandHandler = (context: CommandContext) => unknown

/** A program's name (also the last part of a path), or a predicate on the whole call. */
export type CommandMatcher = string | ((call: { cmd: string; args: readonly string[] }) => boolean)

export interface CommandContext {
  readonly cmd: string
  readonly args: readonly string[]
  /** The variables of the sandbox and of the call. */
  readonly env: Readonly<Record<string, string>>
  /** An absolute path. */
  readonly cwd: string
  readonly sandboxId: string
  readonly stdin: Pipe
  readonly stdout: OutputWriter
  readonly stderr: OutputWriter
  /** The sandbox's files; relative paths start at `cwd`. */
  readonly files: SandboxFilesCore
  readonly clock: { now(): number; sleep(ms: number): Promise<void> }
  /** Aborts when the program is killed; `reason` is the name of the signal. */
  readonly signal: AbortSignal
  /** Handles a signal that would otherwise end the program. SIGKILL and SIGSTOP cannot be trapped. */
  trap(signal: ProcessSignal, handler: () => void): void
  /** Ends this program by a signal at once. */
  raise(signal: string): never
  /** Starts another program as a child. It writes to the same output and is killed with the tree. */
  spawnChild(cmd: string, args?: readonly string[], options?: ChildOptions): ChildProcess
}

export interface OutputWriter {
  /** Resolves when the reader has caught up. Await it, so that a slow reader slows the program. */
  write(data: string | Uint8Array): Promise<void>
}

export interface ChildOptions {
  /** Starts it in another process group, like `setsid`. It is still killed with the tree. */
  session?: boolean
}

export interface ChildProcess {
  readonly exited: Promise<number>
  kill(signal?: ProcessSignal): void
}

/** One program run, for assertions in tests. */
export interface RecordedCall {
  readonly sandboxId: string
  readonly execId: string
  readonly cmd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly startedAtMs: number
  exitCode?: number
  signal?: string
  /** The error that the handler threw, if any. It is also on stderr, and the exit code is 1. */
  error?: unknown
}

/** The programs of a provider. The last added program takes precedence. */
export class Commands {
  readonly #list: Array<{ matcher: CommandMatcher; handler: CommandHandler }> = []

  add(matcher: CommandMatcher, handler: CommandHandler): void {
    this.#list.unshift({ matcher, handler })
  }

  find(cmd: string, args: readonly string[]): CommandHandler | undefined {
    const name = cmd.slice(cmd.lastIndexOf('/') + 1)
    return this.#list.find(({ matcher }) =>
      typeof matcher === 'string' ? matcher === cmd || matcher === name : matcher({ cmd, args }),
    )?.handler
  }
}

/**
 * Finds the scripted program of that name. For the path of an executable file that begins with `#!name`, finds the program
 * `name`, with the file's path as its first argument.
 */
export async function resolveCommand(
  commands: Commands,
  files: FilesDriver,
  { cmd, args, cwd }: { cmd: string; args: readonly string[]; cwd: string },
): Promise<{ handler: CommandHandler; args: readonly string[] }> {
  const handler = commands.find(cmd, args)
  if (handler) return { handler, args }
  if (!cmd.includes('/')) throw notScripted(cmd)
  const path = cmd.startsWith('/') ? cmd : `${cwd}/${cmd}`
  const interpreter = await shebang(files, path).catch((error) => {
    throw SandboxError.is(error, 'file_not_found', 'not_a_directory') ? notScripted(cmd) : error
  })
  const script = interpreter === undefined ? undefined : commands.find(interpreter, [path, ...args])
  if (!script) throw notScripted(interpreter ?? cmd)
  return { handler: script, args: [path, ...args] }
}

async function shebang(files: FilesDriver, path: string): Promise<string | undefined> {
  const { mode = 0, type } = await files.stat(path, { follow: true }, {})
  if (type !== 'file' || (mode & 0o111) === 0) {
    throw new SandboxError('permission_denied', `${path} is not executable.`, {
      provider: 'memory',
      hint: 'Change its mode with files.chmod(path, 0o755).',
    })
  }
  let first = ''
  for await (const chunk of await files.readStream(path, { start: 0, end: 256 }, {}))
    first += new TextDecoder().decode(chunk)
  return /^#!\s*(?:\/\S*\/env\s+)?(\S+)/.exec(first)?.[1]
}

function notScripted(cmd: string): SandboxError {
  const name = JSON.stringify(cmd)
  return new SandboxError('command_not_found', `The memory provider has no program ${name}.`, {
    provider: 'memory',
    hint: `Script it: provider.command(${name}, async ({ args, stdout }) => { await stdout.write('…'); return 0 })`,
    details: { cmd },
  })
}

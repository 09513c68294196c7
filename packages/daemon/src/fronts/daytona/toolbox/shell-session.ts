import { EventEmitter, once } from 'node:events'
import { type ProcessEvent, type ProcessHandle, SandboxError } from '@sandkasten/sdk'
import { quoteArg } from '@sandkasten/sdk/provider'
import type { Sandbox } from '../../../sessions/index.ts'
import { wholeOutput } from '../../shared/output.ts'
import { MarkedStream, type Marker } from './marked-stream.ts'

const keptBytes = 8 * 1024 * 1024
export const mostCommands = 200
/** How long a recovered session is read at a time before its output counts as complete. */
const quietMs = 100
const catchUpMs = 5_000

/** The facts about a command. Its output stays in the sandbox. */
export interface SessionCommand {
  readonly id: string
  readonly command: string
  exitCode?: number
  /** The first and last event number of its output, within the shell's output. */
  from?: number
  to?: number
  /** Receives the output while the command runs. */
  onOutput?: ((output: CommandOutput) => void) | undefined
}

export interface RunOptions {
  /** The command reads what clients send while it runs. Without it, its stdin is empty. */
  readonly input: boolean
  /** Receives all output of the command, however fast it comes: a reader that begins later may find the oldest dropped. */
  readonly onOutput?: ((output: CommandOutput) => void) | undefined
}

export type CommandOutput = { readonly type: 'stdout' | 'stderr'; readonly data: Buffer }

/** The facts that are needed to recover a session. */
export interface SessionFacts {
  readonly processId: string
  readonly nonce: string
  readonly folder: string
}

/**
 * A session of Daytona's toolbox: one long-lived bash that runs commands one after another. Directory and variables
 * persist, and stdout and stderr stay apart. (Our own shells merge both streams.)
 *
 *     stdin ──► marker · eval 'command' · marker     stdout, stderr ──► markers tell the commands' output apart
 *
 * The sandbox keeps the shell's output. This object only knows where each command's part begins and ends. After a
 * restart it finds that out again by reading the output from the beginning.
 */
export class ShellSession {
  readonly #process: ProcessHandle
  readonly #facts: SessionFacts
  readonly #commands = new Map<string, SessionCommand>()
  readonly #leaving = new AbortController()
  /** Emits `news` when a command begins, ends or writes output, and when the shell ends. */
  readonly #news = new EventEmitter().setMaxListeners(0)
  #isOver = false
  /** Resolves when the shell has ended, or is no longer followed. */
  readonly over: Promise<void>

  private constructor(
    process: ProcessHandle,
    facts: SessionFacts,
    commands: ReadonlyArray<{ id: string; command: string }>,
  ) {
    this.#process = process
    this.#facts = facts
    for (const { id, command } of commands) this.#commands.set(id, { id, command })
    this.over = this.#follow()
      .catch(() => {})
      .finally(() => {
        this.#isOver = true
        this.#news.emit('news')
      })
  }

  static async start(sandbox: Sandbox, facts: SessionFacts): Promise<ShellSession> {
    const process = await sandbox.spawn({
      cmd: '/bin/sh',
      // sh supports everything that is used here.
      args: ['-c', 'if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi'],
      execId: facts.processId,
      stdin: 'pipe',
      detached: true,
      outputBufferBytes: keptBytes,
    })
    return new ShellSession(process, facts, [])
  }

  /** Recovers a session that an earlier process started, or whose shell has ended. */
  static async find(
    sandbox: Sandbox,
    facts: SessionFacts,
    commands: ReadonlyArray<{ id: string; command: string }>,
  ): Promise<ShellSession> {
    const session = new ShellSession(await sandbox.getProcess(facts.processId), facts, commands)
    await session.#caughtUp()
    return session
  }

  get(id: string): SessionCommand | undefined {
    return this.#commands.get(id)
  }

  list(): SessionCommand[] {
    return [...this.#commands.values()]
  }

  async run(id: string, command: string, { input, onOutput }: RunOptions): Promise<SessionCommand> {
    const made: SessionCommand = { id, command, onOutput }
    this.#commands.set(id, made)
    for (const oldest of [...this.#commands.keys()].slice(0, -mostCommands)) this.#commands.delete(oldest)
    try {
      await this.#process.writeStdin(this.#script(id, command, input))
    } catch (error) {
      this.#commands.delete(id)
      if (!SandboxError.is(error, 'stdin_closed')) throw error
      throw new SandboxError('gone', 'The session has ended', { details: { daytonaCode: 'SESSION_ENDED' } })
    }
    return made
  }

  /** Resolves when the command has begun, or never will. */
  async begun(command: SessionCommand, signal: AbortSignal): Promise<void> {
    while (command.from === undefined && !this.#isOver && !signal.aborted) await this.#change(signal)
  }

  /** The kept output of a command, and new output until its end. */
  async *output(command: SessionCommand, signal: AbortSignal): AsyncGenerator<CommandOutput> {
    await this.begun(command, signal)
    if (command.from === undefined) return
    const streams = this.#streams()
    // Output before the first marker belongs to another command, unless the beginning was dropped.
    const mine = { stdout: false, stderr: false }
    const over = { stdout: false, stderr: false }
    let last = command.from - 1
    for await (const event of this.#events(last, signal)) {
      // Events were dropped.
      if (event.seq > last + 1) for (const type of ['stdout', 'stderr'] as const) mine[type] = !over[type]
      last = event.seq
      if (event.type === 'exit') {
        for (const type of ['stdout', 'stderr'] as const) {
          const data = streams[type].flush()
          if (mine[type] && data.length > 0) yield { type, data }
        }
        return
      }
      for (const piece of streams[event.type].push(event.data)) {
        if (Buffer.isBuffer(piece)) {
          if (mine[event.type]) yield { type: event.type, data: piece }
          continue
        }
        const own = piece.execId === command.id
        mine[event.type] = own && piece.kind === 'begin'
        if (own && piece.kind === 'end') over[event.type] = true
      }
      if ((over.stdout && over.stderr) || (command.to !== undefined && event.seq >= command.to)) return
    }
  }

  /** Resolves when the command has ended, or its end will never be known. */
  async ended(command: SessionCommand, signal: AbortSignal): Promise<void> {
    while (command.exitCode === undefined && !this.#isOver && !signal.aborted) await this.#change(signal)
  }

  inputFile(id: string): string {
    return `${this.#facts.folder}/${id}`
  }

  async kill(): Promise<void> {
    await this.#process.kill('SIGKILL')
    this.close()
  }

  /** Stops following the session; it keeps running. */
  close(): void {
    this.#leaving.abort()
  }

  #script(id: string, command: string, input: boolean): string {
    const mark = (kind: string) => {
      const line = `printf '\\036%s ${kind} ${id} %d\\n' ${this.#facts.nonce}`
      return kind === 'end' ? `${line} "$__s"; ${line} "$__s" >&2` : `${line} 0; ${line} 0 >&2`
    }
    const file = quoteArg(this.inputFile(id))
    const folder = quoteArg(this.#facts.folder)
    // Open the pipe for reading and writing before the command begins, so that neither side blocks.
    const [before, stdin, after] = input
      ? [
          `mkdir -p ${folder}; mkfifo -m 600 ${file}; exec 9<>${file};`,
          '<&9 9>&-',
          `exec 9>&-; rm -f ${file};`,
        ]
      : ['', '</dev/null', '']
    return `${before} ${mark('begin')}; eval ${quoteArg(command)} ${stdin}\n__s=$?; ${after} ${mark('end')}\n`
  }

  /** Records where commands begin and end, and passes on their output. */
  async #follow(): Promise<void> {
    const streams = this.#streams()
    const heldSince: Record<'stdout' | 'stderr', number | undefined> = {
      stdout: undefined,
      stderr: undefined,
    }
    const writing: Record<'stdout' | 'stderr', SessionCommand | undefined> = {
      stdout: undefined,
      stderr: undefined,
    }
    let current: SessionCommand | undefined
    for await (const event of this.#events(0, this.#leaving.signal)) {
      if (event.type === 'exit') {
        for (const type of ['stdout', 'stderr'] as const) pass(writing[type], type, streams[type].flush())
        // `exit 3` ends the command and the session.
        if (current) this.#end(current, event.exitCode, event.seq)
        break
      }
      const stream = streams[event.type]
      const begin = heldSince[event.type] ?? event.seq
      for (const piece of stream.push(event.data)) {
        if (Buffer.isBuffer(piece)) {
          pass(writing[event.type], event.type, piece)
          continue
        }
        const command = this.#commands.get(piece.execId)
        writing[event.type] = piece.kind === 'begin' ? command : undefined
        if (piece.kind === 'begin') {
          current = command
          if (command) command.from = Math.min(command.from ?? Infinity, begin)
        } else if (command) this.#ended(command, piece, event)
        if (piece.kind === 'end' && command?.exitCode !== undefined) current = undefined
      }
      heldSince[event.type] = stream.holds ? (heldSince[event.type] ?? event.seq) : undefined
      this.#news.emit('news')
    }
  }

  /** A command has ended when both streams have its end marker: one may be behind the other. */
  #ended(
    command: SessionCommand & { half?: string },
    { exitCode }: Marker,
    event: { type: string; seq: number },
  ): void {
    if (command.half !== undefined && command.half !== event.type) this.#end(command, exitCode, event.seq)
    else command.half = event.type
  }

  #end(command: SessionCommand, exitCode: number, seq: number): void {
    command.exitCode = exitCode
    command.to = seq
    // The event with its beginning was dropped.
    command.from ??= 1
  }

  async #change(signal: AbortSignal): Promise<void> {
    await once(this.#news, 'news', { signal }).catch(() => {})
  }

  async #caughtUp(): Promise<void> {
    const startedAt = performance.now()
    for (let quiet = false; !quiet && !this.#isOver && performance.now() - startedAt < catchUpMs; ) {
      const rest = AbortSignal.timeout(quietMs)
      await this.#change(rest)
      quiet = rest.aborted
    }
  }

  #events(after: number, signal: AbortSignal): AsyncGenerator<ProcessEvent> {
    return wholeOutput((from) => this.#process.output({ after: from, signal }), signal, after)
  }

  #streams() {
    const { nonce } = this.#facts
    return { stdout: new MarkedStream(nonce), stderr: new MarkedStream(nonce) }
  }
}

function pass(command: SessionCommand | undefined, type: CommandOutput['type'], data: Buffer): void {
  if (data.length > 0) command?.onOutput?.({ type, data })
}

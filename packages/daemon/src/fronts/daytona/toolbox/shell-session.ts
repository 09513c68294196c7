import { type ProcessEvent, type ProcessHandle, SandboxError } from '@sandkasten/sdk'
import { OutputLog, quoteArg } from '@sandkasten/sdk/provider'
import type { Sandbox } from '../../../sessions/index.ts'
import { MarkedStream } from './marked-stream.ts'

const keptBytes = 8 * 1024 * 1024

export interface SessionCommand {
  readonly id: string
  readonly command: string
  readonly log: OutputLog
  exitCode?: number
  /** Resolves when it has ended, or will never be known to have. */
  readonly done: Promise<void>
}

/** What is needed to find a session again. */
export interface SessionFacts {
  readonly processId: string
  readonly nonce: string
  readonly folder: string
}

/**
 * A session of the vendor's toolbox: one bash that lives on, in which commands run one after another, so that directory and
 * variables stay, and whose two streams stay apart.
 *
 *     its stdin ──► marker · eval 'command' · marker     its stdout, stderr ──► markers say whose output it is
 *
 * All of it is in the shell's own output, which the sandbox keeps: so another process of ours finds the commands again by reading it
 * from its beginning. (Our own shells put both streams together.)
 */
export class ShellSession {
  readonly #process: ProcessHandle
  readonly #facts: SessionFacts
  readonly #commands = new Map<string, Running>()
  readonly #leaving = new AbortController()
  #relief: { wait: Promise<void>; go: () => void } | undefined
  ended = false

  private constructor(process: ProcessHandle, facts: SessionFacts) {
    this.#process = process
    this.#facts = facts
  }

  static async start(sandbox: Sandbox, facts: SessionFacts): Promise<ShellSession> {
    const process = await sandbox.spawn({
      cmd: '/bin/sh',
      // An image without bash has a shell that can do this, too.
      args: ['-c', 'if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi'],
      processId: facts.processId,
      stdin: 'pipe',
      detached: true,
      outputBufferBytes: keptBytes,
    })
    return new ShellSession(process, facts).#follow()
  }

  /** One that an earlier process of ours has started. */
  static async find(
    sandbox: Sandbox,
    facts: SessionFacts,
    commands: ReadonlyArray<{ id: string; command: string }>,
  ): Promise<ShellSession> {
    const session = new ShellSession(await sandbox.getProcess(facts.processId), facts)
    for (const { id, command } of commands) session.#add(id, command)
    return session.#follow()
  }

  get(id: string): SessionCommand | undefined {
    return this.#commands.get(id)
  }

  list(): SessionCommand[] {
    return [...this.#commands.values()]
  }

  /** `input`: it may be fed while it runs; otherwise it has nothing to read. */
  async run(id: string, command: string, input: boolean): Promise<SessionCommand> {
    if (this.ended)
      throw new SandboxError('gone', 'The session has ended', { details: { daytonaCode: 'SESSION_ENDED' } })
    const running = this.#add(id, command)
    await this.#process.writeStdin(this.#script(id, command, input))
    return running
  }

  inputFile(id: string): string {
    return `${this.#facts.folder}/${id}`
  }

  async kill(): Promise<void> {
    await this.#process.kill('SIGKILL')
    this.close()
  }

  /** Lets go of it; it runs on. */
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
    // Opened for both, so that neither side waits for the other to come.
    const [before, stdin, after] = input
      ? [
          `mkdir -p ${folder}; mkfifo -m 600 ${file}; exec 9<>${file};`,
          '<&9 9>&-',
          `exec 9>&-; rm -f ${file};`,
        ]
      : ['', '</dev/null', '']
    return `${mark('begin')}; ${before} eval ${quoteArg(command)} ${stdin}\n__s=$?; ${after} ${mark('end')}\n`
  }

  #add(id: string, command: string): Running {
    const running = new Running(id, command, (wait) => this.#press(wait))
    this.#commands.set(id, running)
    return running
  }

  #follow(): this {
    void this.#read()
      .catch(() => {})
      .finally(() => {
        this.ended = true
        for (const command of this.#commands.values()) command.lost()
      })
    return this
  }

  async #read(): Promise<void> {
    const { nonce } = this.#facts
    const streams = { stdout: new MarkedStream(nonce), stderr: new MarkedStream(nonce) }
    const current: Record<'stdout' | 'stderr', Running | undefined> = { stdout: undefined, stderr: undefined }
    for await (const event of this.#events()) {
      if (event.type === 'exit') {
        for (const type of ['stdout', 'stderr'] as const) current[type]?.push(type, streams[type].flush())
        const last = current.stdout ?? current.stderr
        // `exit 3` ends the command and the session.
        last?.end(event.exitCode)
        return
      }
      for (const piece of streams[event.type].push(event.data)) {
        if (Buffer.isBuffer(piece)) {
          current[event.type]?.push(event.type, piece)
          continue
        }
        const command = this.#commands.get(piece.commandId)
        current[event.type] = piece.kind === 'begin' ? command : undefined
        if (piece.kind === 'end') command?.endOf(event.type, piece.exitCode)
      }
      await this.#relief?.wait
    }
  }

  /** From the oldest that is left on. */
  async *#events(): AsyncGenerator<ProcessEvent> {
    let after = 0
    for (;;) {
      try {
        yield* this.#process.output({ after, signal: this.#leaving.signal })
        return
      } catch (error) {
        const oldest = SandboxError.is(error, 'gone') ? error.details.oldest : undefined
        if (typeof oldest !== 'number') throw error
        after = oldest - 1
      }
    }
  }

  #press(wait: boolean): void {
    if (!wait) {
      this.#relief?.go()
      this.#relief = undefined
      return
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#relief ??= { wait: promise, go: resolve }
  }
}

class Running implements SessionCommand {
  readonly id: string
  readonly command: string
  readonly log: OutputLog
  readonly done: Promise<void>
  exitCode?: number
  readonly #resolve: () => void
  readonly #over = new Set<string>()
  readonly #startedAt = Date.now()

  constructor(id: string, command: string, onPressure: (wait: boolean) => void) {
    this.id = id
    this.command = command
    this.log = new OutputLog({ capacityBytes: keptBytes, onPressure })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.done = promise
    this.#resolve = resolve
  }

  push(type: 'stdout' | 'stderr', data: Buffer): void {
    if (data.length > 0) this.log.push(type, data)
  }

  /** Both streams have to be over: one may be behind the other. */
  endOf(type: string, exitCode: number): void {
    this.#over.add(type)
    if (this.#over.size === 2) this.end(exitCode)
  }

  end(exitCode: number): void {
    if (this.exitCode !== undefined) return
    this.exitCode = exitCode
    this.log.end({ exitCode, timedOut: false, durationMs: Date.now() - this.#startedAt })
    this.#resolve()
  }

  /** Its shell ended before it did, or before it began. */
  lost(): void {
    this.#resolve()
    if (this.exitCode === undefined)
      this.log.end({ exitCode: -1, timedOut: false, durationMs: Date.now() - this.#startedAt })
  }
}

import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { abortable, abortedError, throwIfAborted } from '../../shared/calls/abort.ts'
import { randomId } from '../../shared/ids.ts'
import { quoteArgs } from '../../shared/quote.ts'
import type {
  CallOptions,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../../spec/index.ts'
import { resolved } from './files.ts'
import type { Guest } from './guest/guest.ts'
import * as scripts from './guest/programs.ts'
import { replayed } from './kept-output.ts'
import { Coalesced, inputBytes } from './process-input.ts'
import { exitOf, ProcessLog, type Said } from './process-log.ts'
import type { VendorCommand } from './sdk.ts'
import type { Transport } from './transport.ts'

export interface ProcessPlace {
  readonly guest: Guest
  readonly transport: Transport
  readonly workdir: string
  /** How long a log may be silent before we check that the command still exists. */
  readonly silenceMs: number
}

/** After these errors the command may still exist. A truncated line is invalid JSON, so `provider_error` is among them. */
const passing = ['connection_lost', 'unavailable', 'timeout', 'provider_error'] as const
const ended = 43
const unknown = 44
/** How often a log may break off without a new event before we give up. */
const patience = 3
/** Linux limits one argument to 128 KiB. For longer commands, the line for awk, which repeats all arguments, is left out. */
const longestLine = 120_000
const largestPiece = 49_152

/** A program in the sandbox: a vendor command that runs our script. */
export class VercelProcess implements ProcessDriver {
  readonly execId: string
  readonly #place: ProcessPlace
  readonly #command: VendorCommand
  /** The log stream that confirmed the start, positioned at the first event. */
  #first: ProcessLog | undefined
  #exit: ProcessExit | undefined
  readonly #piped: boolean
  #stdinClosed = false
  #turn: Promise<unknown> = Promise.resolve()
  #inputs = 0

  constructor(
    place: ProcessPlace,
    execId: string,
    command: VendorCommand,
    given: { first?: ProcessLog | undefined; piped?: boolean; exit?: ProcessExit | undefined } = {},
  ) {
    this.#place = place
    this.execId = execId
    this.#command = command
    this.#first = given.first
    this.#piped = given.piped ?? false
    this.#exit = given.exit
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    throwIfAborted(signal, 'Reading the output')
    const first = after === 0 ? this.#first : undefined
    if (first) this.#first = undefined
    // Unread output is kept up to the requested size; the vendor may have more of it.
    else if (await this.#isOver(signal)) {
      const kept = await this.#again(() => replayed(() => this.#open(signal), signal), signal)
      yield* this.#remember(kept.after(after))
      return
    }
    yield* this.#remember(this.#live(first, after, signal))
  }

  async kill(signal: ProcessSignal, call: CallOptions): Promise<boolean> {
    if (this.#exit) return false
    const { guest } = this.#place
    const { exitCode } = await guest.ask(
      scripts.kill,
      [guest.root, this.execId, signal.slice(3)],
      call.signal,
    )
    if (exitCode === 0 || exitCode === ended) return exitCode === 0
    throw new SandboxError(
      'provider_error',
      `The process ${this.execId} could not be signalled (${exitCode}).`,
      {
        provider: 'vercel',
      },
    )
  }

  async status(call: CallOptions): Promise<ProcessStatus> {
    if (this.#exit) return { running: false, exit: this.#exit }
    const { guest } = this.#place
    const { exitCode, stdout } = await guest.ask(scripts.look, [guest.root, this.execId], call.signal)
    if (exitCode === unknown) throw noProcess(this.execId)
    this.#exit = exitOf(stdout)
    return this.#exit ? { running: false, exit: this.#exit } : { running: true }
  }

  async write(data: Uint8Array, call: CallOptions): Promise<void> {
    if (!this.#piped || this.#stdinClosed || this.#exit) throw stdinClosed()
    return this.#inTurn(() => this.#feed(data, call.signal))
  }

  async closeStdin(call: CallOptions): Promise<void> {
    if (this.#stdinClosed) return
    this.#stdinClosed = true
    const { guest } = this.#place
    await this.#inTurn(() => guest.ask(scripts.close, [guest.root, this.execId], call.signal))
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async pump(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const source = new Coalesced(chunks)
    try {
      for (;;) {
        const piece = await source.next()
        if (!piece) break
        await this.#feed(piece, undefined)
      }
      const { guest } = this.#place
      await guest.ask(scripts.close, [guest.root, this.execId])
    } catch (error) {
      // The source failed: kill the program, so that it does not treat partial input as complete.
      if (!SandboxError.is(error, 'stdin_closed')) await this.kill('SIGKILL', {}).catch(() => {})
    } finally {
      source.release()
    }
  }

  async #feed(data: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const { guest } = this.#place
    for (let at = 0; at < data.byteLength; at += inputBytes) {
      const path = `${guest.root}/in/${this.execId}.${this.#inputs}`
      this.#inputs += 1
      const content = data.slice(at, at + inputBytes)
      await guest.do((session) => session.writeFiles([{ path, content }], { signal }), signal)
      const { exitCode } = await guest.ask(scripts.feed, [guest.root, this.execId, path], signal)
      if (exitCode !== 0) throw stdinClosed()
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work, work)
    this.#turn = mine.catch(() => {})
    return mine
  }

  /** Follows the log across interruptions, and skips known events. */
  async *#live(
    first: ProcessLog | undefined,
    after: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ProcessEvent> {
    let last = after
    for (let fruitless = 0; fruitless <= patience; fruitless += 1) {
      const log = first ?? (await this.#open(signal))
      first = undefined
      try {
        for (;;) {
          const said = await this.#patiently(log, signal)
          if (!said) break
          if (said.kind !== 'event' || said.event.seq <= last) continue
          const { event } = said
          if (event.seq > last + 1) throw gone(last, event.seq)
          last = event.seq
          fruitless = 0
          yield event
          if (event.type === 'exit') return
        }
      } catch (error) {
        const known = await this.#explained(error, signal)
        if (!SandboxError.is(known, 'connection_lost', 'unavailable', 'timeout', 'provider_error'))
          throw known
        if (fruitless >= patience) throw known
      } finally {
        log.close()
      }
    }
    throw new SandboxError(
      'connection_lost',
      `The log of process ${this.execId} ends before the process does.`,
      {
        provider: 'vercel',
        details: { after: last },
      },
    )
  }

  /** Retries an interrupted read, because reading is idempotent. */
  async #again<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await work()
      } catch (error) {
        const known = await this.#explained(error, signal)
        if (attempt > patience || !SandboxError.is(known, ...passing)) throw known
      }
    }
  }

  /** The next event. If it takes long, checks the command, to detect a dead connection. */
  async #patiently(log: ProcessLog, signal: AbortSignal | undefined): Promise<Said | undefined> {
    const next = log.next()
    next.catch(() => {})
    for (;;) {
      let timer: ReturnType<typeof setTimeout> | undefined
      const silence = new Promise<'silence'>((resolve) => {
        timer = setTimeout(() => resolve('silence'), this.#place.silenceMs)
      })
      try {
        const said = await abortable(Promise.race([next, silence]), signal, 'Reading the output')
        if (said !== 'silence') return said
      } finally {
        clearTimeout(timer)
      }
      if (await this.#isOver(signal)) return undefined
    }
  }

  async #isOver(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#exit) return true
    const { guest } = this.#place
    const { cmdId } = this.#command
    const command = await guest.do((session) => session.getCommand(cmdId, { signal }), signal)
    return command.exitCode !== null
  }

  #open(signal?: AbortSignal): Promise<ProcessLog> {
    return abortable(ProcessLog.open(this.#place.transport, this.#command), signal, 'Reading the output')
  }

  async *#remember(
    events: AsyncIterable<ProcessEvent> | Iterable<ProcessEvent>,
  ): AsyncGenerator<ProcessEvent> {
    for await (const event of events) {
      if (event.type === 'exit') {
        const { seq: _, type: __, ...exit } = event
        this.#exit = exit
      }
      yield event
    }
  }

  async #explained(error: unknown, signal: AbortSignal | undefined): Promise<unknown> {
    if (SandboxError.is(error, 'gone', 'aborted')) return error
    return this.#place.guest.do(() => Promise.reject(error), signal).catch((known: unknown) => known)
  }
}

/** Starts a program once. Its id is claimed in the sandbox, so that a repeated request finds the first program. */
export async function startProcess(
  place: ProcessPlace,
  spec: ProcessSpec,
  { signal }: CallOptions,
): Promise<VercelProcess> {
  const { guest, workdir } = place
  const id = spec.execId ?? `p-${randomId()}`
  const once = spec.reading && spec.execId === undefined
  const piped = spec.stdin !== 'empty'
  const nonce = `sandkasten-end-${randomId(33)}`
  const line = scripts.lineOf(quoteArgs(spec.args))
  const args = [
    guest.root,
    id,
    String(Math.min(largestPiece, Math.max(512, Math.floor(spec.outputBufferBytes / 8)))),
    spec.timeoutMs === undefined ? '-' : String(spec.timeoutMs / 1000),
    piped ? 'pipe' : '-',
    nonce,
    btoa(nonce),
    once ? 'once' : '-',
    resolved(workdir, spec.cwd ?? '.'),
    line.length < longestLine ? line : '',
    String(spec.outputBufferBytes),
    spec.cmd,
    ...spec.args,
  ]
  try {
    // Do not cancel the request: only its response tells which program to kill.
    const command = await guest.do((session) =>
      session.runCommand({
        cmd: 'sh',
        args: ['-c', scripts.run, 'sandkasten', ...args],
        env: { ...spec.env },
        detached: true,
      }),
    )
    const { log, said } = await firstSaid(place, command)
    if (said?.kind === 'started') {
      if (signal?.aborted) throw abortedError(signal, 'Starting the program')
      if (!spec.reading) log.close()
      if (!once) await guest.ask(scripts.note, [guest.root, id, command.cmdId])
      const process = new VercelProcess(place, id, command, { first: spec.reading ? log : undefined, piped })
      if (spec.stdin !== 'empty' && spec.stdin !== 'pipe') void process.pump(spec.stdin)
      return process
    }
    log.close()
    if (said?.kind === 'refused' && said.reason !== 'taken') throw refusal(said.reason, spec)
    if (said?.kind === 'refused' && spec.execId !== undefined) return await findProcess(place, id, signal)
    throw new SandboxError('connection_lost', 'The start of the program was not confirmed.', {
      provider: 'vercel',
      hint: 'Check whether the program has run, and run it again if needed.',
    })
  } catch (error) {
    // It may have started although the response was lost: kill it, and never start it a second time.
    if (SandboxError.is(error, 'aborted', 'timeout', 'unavailable', 'connection_lost', 'provider_error'))
      void guest.ask(scripts.kill, [guest.root, id, 'KILL']).catch(() => {})
    throw error
  }
}

/** The first line of the log. The command exists, so an interrupted read is repeated. */
async function firstSaid(
  { guest, transport }: ProcessPlace,
  command: VendorCommand,
): Promise<{ log: ProcessLog; said: Said | undefined }> {
  for (let attempt = 1; ; attempt += 1) {
    let log: ProcessLog | undefined
    try {
      log = await guest.do(() => ProcessLog.open(transport, command))
      const opened = log
      const said = await guest.do(() => opened.next())
      if (said || attempt > patience) return { log, said }
      log.close()
    } catch (error) {
      log?.close()
      if (attempt > patience || !SandboxError.is(error, ...passing)) throw error
    }
  }
}

export async function findProcess(
  place: ProcessPlace,
  id: string,
  signal?: AbortSignal,
): Promise<VercelProcess> {
  const { guest } = place
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(id)) throw noProcess(id)
  const { exitCode, stdout } = await guest.ask(scripts.find, [guest.root, id], signal)
  if (exitCode !== 0) throw noProcess(id)
  const command = await guest.do((session) => session.getCommand(stdout.trim(), { signal }), signal)
  return new VercelProcess(place, id, command)
}

function refusal(reason: string, { cmd, cwd }: ProcessSpec): SandboxError {
  const messages: Record<string, string> = {
    command_not_found: `The program “${cmd}” does not exist in the sandbox.`,
    cwd_not_found: `The working directory ${cwd} does not exist.`,
    permission_denied: `“${cmd}” is not executable${cwd === undefined ? '' : `, or ${cwd} is not accessible`}.`,
  }
  return new SandboxError(
    reason as SandboxErrorCode,
    messages[reason] ?? `The program was refused: ${reason}.`,
    {
      provider: 'vercel',
    },
  )
}

function noProcess(id: string): SandboxError {
  return new SandboxError('not_found', `The sandbox has no process ${id}.`, { provider: 'vercel' })
}

function stdinClosed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'vercel' })
}

export function gone(after: number, oldest: number): SandboxError {
  return new SandboxError(
    'gone',
    `Output after event ${after} was dropped; the oldest kept is event ${oldest}.`,
    {
      details: { after, oldest },
    },
  )
}

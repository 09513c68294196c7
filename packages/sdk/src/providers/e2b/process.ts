import type { ProcessDriver, ProcessSpec } from '../../core/driver.ts'
import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { randomId } from '../../shared/ids.ts'
import type { CallOptions, ProcessEvent, ProcessSignal, ProcessStatus } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'
import { hunt, markVariable, start } from './guest/programs.ts'
import { OutputStream, type OutputStreamOptions } from './output-stream.ts'

/**
 * A program in the sandbox whose output this process reads from the first byte. E2B's daemon keeps no output, so the
 * history exists only in this process.
 */
export class E2BProcess implements ProcessDriver {
  readonly execId: string
  readonly pid: number
  readonly #guest: Guest
  readonly #stream: OutputStream
  readonly #mark: string
  readonly #piped: boolean
  #stdinClosed = false

  constructor(
    guest: Guest,
    given: { execId: string; pid: number; mark: string; stream: OutputStream; piped: boolean },
  ) {
    this.#guest = guest
    this.execId = given.execId
    this.pid = given.pid
    this.#mark = given.mark
    this.#stream = given.stream
    this.#piped = given.piped
  }

  get ended(): boolean {
    return this.#stream.exit !== undefined
  }

  events(after: number, signal?: AbortSignal): AsyncIterable<ProcessEvent> {
    return this.#stream.read(after, signal)
  }

  async kill(signal: ProcessSignal, { signal: call }: CallOptions): Promise<boolean> {
    if (this.ended) return false
    const found = await this.#guest.ask(hunt, [signal.replace(/^SIG/, ''), this.#mark], call)
    return found.stdout !== 'none'
  }

  async status({ signal }: CallOptions): Promise<ProcessStatus> {
    throwIfAborted(signal)
    const exit = this.#stream.exit
    if (!exit) return { running: await this.#stream.running() }
    const { seq: _, type: __, ...facts } = exit
    return { running: false, exit: facts }
  }

  async write(data: Uint8Array, { signal }: CallOptions): Promise<void> {
    for (let at = 0; at === 0 || at < data.byteLength; at += pieceBytes) {
      if (!this.#piped || this.#stdinClosed || this.ended) throw stdinClosed()
      await this.#send(data.subarray(at, at + pieceBytes), signal)
    }
  }

  async closeStdin({ signal }: CallOptions): Promise<void> {
    if (!this.#piped || this.#stdinClosed) return
    this.#stdinClosed = true
    if (this.ended) return
    await this.#stream
      .inside(({ commands }) => commands.closeStdin(this.#stream.pid, callOptions(signal)))
      .catch(async (error: unknown) => {
        // The stdin of an ended program is already closed.
        if (isLost(error) || !(await this.#stream.over(endMs))) throw error
      })
  }

  /** Sends all chunks, then end-of-file. It is not an error if the program does not read them. */
  async stream(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const unwanted = (error: unknown): 'over' => {
      if (isLost(error)) throw error
      return 'over'
    }
    try {
      for await (const chunk of chunks) if ((await this.write(chunk, {}).catch(unwanted)) === 'over') return
      await this.closeStdin({}).catch(unwanted)
    } catch {
      // The source or the connection failed: kill the program, so that it does not treat partial input as complete.
      await this.kill('SIGKILL', {}).catch(() => {})
    }
  }

  async #send(piece: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#stream.inside(({ commands }) =>
        commands.sendStdin(this.#stream.pid, piece, callOptions(signal)),
      )
    } catch (error) {
      // The vendor has several errors for a closed pipe. The output stream reports the exit a moment later.
      const lost = SandboxError.is(
        error,
        'aborted',
        'connection_lost',
        'timeout',
        'unavailable',
        'not_running',
      )
      if (!lost && (await this.#stream.over(endMs))) throw stdinClosed()
      throw error
    }
  }
}

const endMs = 5_000

/** The most bytes in one request, which carries them as base64 in JSON. */
const pieceBytes = 64 * 1024

/** No timeout: the writer waits for a program that does not read its stdin. */
function callOptions(signal: AbortSignal | undefined): { requestTimeoutMs: number; signal?: AbortSignal } {
  return { requestTimeoutMs: 0, signal }
}

/** The program's result is unknown. */
function isLost(error: unknown): boolean {
  return SandboxError.is(error, 'aborted', 'connection_lost', 'timeout', 'unavailable', 'not_running')
}

function stdinClosed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'e2b' })
}

/** Resolves when the program runs. The start is never repeated, even if its response is lost. */
export async function startProcess(
  guest: Guest,
  spec: ProcessSpec,
  { signal }: CallOptions,
): Promise<E2BProcess> {
  const { incarnation } = guest
  const execId = spec.execId ?? randomId()
  const mark = randomId()
  const nonce = randomId()
  const cwd =
    spec.cwd === undefined
      ? incarnation.workdir
      : spec.cwd.startsWith('/')
        ? spec.cwd
        : `${incarnation.workdir}/${spec.cwd}`
  const greeted = begin(guest, nonce, {
    request: {
      process: {
        cmd: '/bin/sh',
        args: ['-c', start, 'sandkasten', nonce, cwd, spec.cmd, ...spec.args],
        envs: { ...spec.env, [markVariable]: mark },
      },
      tag: execId,
      stdin: spec.stdin !== 'empty',
    },
    capacityBytes: spec.outputBufferBytes,
    signal,
  })
  greeted.catch((error: unknown) => {
    // The program may run although the response was lost, and no handle could stop it: kill it.
    if (SandboxError.is(error, 'aborted', 'connection_lost', 'timeout'))
      guest.ask(hunt, ['KILL', mark]).catch(() => {})
  })
  const { stream, greeting } = await greeted
  const [word = '', pid = ''] = greeting.split(' ')
  if (word !== 'started')
    throw new SandboxError(
      word as SandboxErrorCode,
      refusals[word]?.(spec) ?? `${spec.cmd} cannot be started.`,
      {
        provider: 'e2b',
        sandboxId: incarnation.sandboxId,
      },
    )
  const process = new E2BProcess(guest, {
    execId,
    pid: Number(pid),
    mark,
    stream,
    piped: spec.stdin !== 'empty',
  })
  if (signal?.aborted) {
    await process.kill('SIGKILL', {}).catch(() => {})
    throwIfAborted(signal, `The command ${spec.cmd}`)
  }
  if (spec.timeoutMs !== undefined) stream.limit(spec.timeoutMs, () => process.kill('SIGKILL', {}))
  if (spec.stdin !== 'empty' && spec.stdin !== 'pipe') void process.stream(spec.stdin)
  return process
}

async function begin(
  guest: Guest,
  nonce: string,
  options: OutputStreamOptions,
): Promise<{ stream: OutputStream; greeting: string }> {
  const stream = await OutputStream.start(guest, options)
  return { stream, greeting: await stream.greeting(nonce, options.signal) }
}

const refusals: Readonly<Record<string, (spec: ProcessSpec) => string>> = {
  command_not_found: ({ cmd }) => `The program ${cmd} does not exist.`,
  cwd_not_found: ({ cwd }) => `The working directory ${cwd} does not exist.`,
  permission_denied: ({ cmd }) => `${cmd} is not executable.`,
}

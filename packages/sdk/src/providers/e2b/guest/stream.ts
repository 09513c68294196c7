import { SandboxError } from '../../../errors.ts'
import { onAbort } from '../../../shared/calls/abort.ts'
import { Silence } from '../../../shared/calls/silence-timeout.ts'
import { guestError } from '../../../shared/guest/errors.ts'
import type { GuestCall, GuestStream } from '../../../shared/guest/link.ts'
import { GuestReader } from '../../../shared/guest/reader.ts'
import { randomId } from '../../../shared/ids.ts'
import { connectionLost, stdinClosed } from '../errors.ts'
import type { ProcessMessage } from '../sdk.ts'
import type { Guest } from './guest.ts'

export interface Command {
  /** Arguments of `/bin/sh`. */
  readonly args: string[]
  readonly envs: Record<string, string>
}

/** The stdout of a command of ours in the sandbox, through the vendor's process client. */
export class GuestCommand implements GuestStream {
  #exitCode: number | undefined
  readonly #guest: Guest
  readonly #call: GuestCall
  readonly #requestId: string
  readonly #controller: AbortController
  readonly #reader: GuestReader
  #pid = 0
  #discarding: Promise<void> | undefined

  private constructor(
    guest: Guest,
    command: Command,
    call: GuestCall,
    requestId: string,
    controller: AbortController,
  ) {
    this.#guest = guest
    this.#call = call
    this.#requestId = requestId
    this.#controller = controller
    const messages = guest.rpc.start(
      { process: { cmd: '/bin/sh', args: command.args, envs: command.envs }, stdin: call.stdin ?? false },
      { timeoutMs: 0, signal: controller.signal, headers: { 'x-request-id': requestId } },
    )
    const iterator = messages[Symbol.asyncIterator]()
    this.#reader = new GuestReader('e2b', () => this.#next(iterator))
  }

  /** Resolves when the response begins. The vendor has to answer in time; from then on the command may be silent. */
  static async start(guest: Guest, command: Command, call: GuestCall): Promise<GuestCommand> {
    const controller = new AbortController()
    const silence = new Silence(guest.answerMs + (call.waitMs ?? 0), 'e2b', call.signal)
    const forget = onAbort(silence.signal, () => controller.abort())
    const requestId = randomId()
    silence.listen()
    try {
      const started = new GuestCommand(guest, command, call, requestId, controller)
      await started.#reader.peek()
      return started
    } catch (error) {
      controller.abort()
      throw await guest.explain(silence.blamed(error), call.signal, requestId)
    } finally {
      silence.rest()
      forget()
    }
  }

  /** Undefined until the command has ended. */
  get exitCode(): number | undefined {
    return this.#exitCode
  }

  line(): Promise<string | undefined> {
    return this.#explained(this.#reader.line(64 * 1024))
  }

  async bytes(count: number): Promise<Uint8Array> {
    const data = await this.#explained(this.#reader.bytes(count))
    if (data) return data
    throw await this.problem()
  }

  rest(): Promise<Uint8Array> {
    return this.#explained(this.#reader.rest(mostBytes))
  }

  /** A stream that is left early keeps its connection, so it is read to the end. */
  discard(): Promise<void> {
    this.#discarding ??= (async () => {
      while (await this.#reader.chunk().catch(() => undefined));
    })()
    return this.#discarding
  }

  async problem(): Promise<SandboxError> {
    await this.discard()
    const { sandboxId } = this.#guest.incarnation
    if (this.#exitCode === undefined || this.#exitCode < 64 || this.#exitCode > 100)
      return this.#guest.explain(connectionLost(sandboxId, this.#requestId))
    return guestError(this.#exitCode, { provider: 'e2b', sandboxId, what: this.#call.what })
  }

  close(): void {
    if (this.#exitCode !== undefined) return
    // It usually ends by itself in a moment. The vendor's kill would also end what the command has started.
    void this.#endsWithin(endMs).then((ended) => ended || this.#controller.abort())
  }

  async write(data: Uint8Array, signal?: AbortSignal): Promise<void> {
    for (let at = 0; at === 0 || at < data.byteLength; at += pieceBytes) {
      if (this.#exitCode !== undefined) throw stdinClosed()
      const piece = data.subarray(at, at + pieceBytes)
      try {
        await this.#guest.do(
          ({ commands }) => commands.sendStdin(this.#pid, piece, unlimited(signal)),
          signal,
        )
      } catch (error) {
        // The vendor has several errors for a closed pipe. The stream reports the end a moment later.
        throw (await this.#endsWithin(endMs)) ? stdinClosed() : error
      }
    }
  }

  async endInput(): Promise<void> {
    if (this.#exitCode !== undefined) return
    await this.#guest.do(({ commands }) => commands.closeStdin(this.#pid, unlimited(undefined)))
    await this.discard()
  }

  async #endsWithin(ms: number): Promise<boolean> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const waited = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
      ;(timer as { unref?: () => void }).unref?.()
    })
    await Promise.race([this.discard(), waited])
    clearTimeout(timer)
    return this.#exitCode !== undefined
  }

  async #explained<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      const known = await this.#guest.explain(error, this.#call.signal, this.#requestId)
      // The response had begun, so repeating the call could repeat its effect.
      if (!SandboxError.is(known, 'unavailable')) throw known
      throw connectionLost(this.#guest.incarnation.sandboxId, this.#requestId, known)
    }
  }

  async #next(iterator: AsyncIterator<ProcessMessage>): Promise<Uint8Array | undefined> {
    for (;;) {
      const { done, value } = await iterator.next()
      const event = done ? undefined : value.event?.event
      if (event?.case === 'start') this.#pid = event.value.pid
      if (event?.case === 'data' && event.value.output.case === 'stdout') return event.value.output.value
      if (event?.case === 'end') this.#exitCode = event.value.exitCode
      if (done) return undefined
    }
  }
}

const endMs = 5_000
const mostBytes = 64 * 1024 * 1024
/** The most bytes in one request, which carries them as base64 in JSON. */
const pieceBytes = 64 * 1024

/** No timeout: the writer waits for a program that does not read its stdin. */
function unlimited(signal: AbortSignal | undefined): { requestTimeoutMs: number; signal?: AbortSignal } {
  return { requestTimeoutMs: 0, signal }
}

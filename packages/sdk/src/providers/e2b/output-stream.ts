import { SandboxError } from '../../errors.ts'
import { onAbort } from '../../shared/calls/abort.ts'
import { Silence } from '../../shared/calls/silence-timeout.ts'
import { randomId } from '../../shared/ids.ts'
import { OutputLog } from '../../shared/output/output-log.ts'
import type { ExitEvent, ProcessEvent } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'
import type { ProcessMessage, StartRequest } from './sdk.ts'
import { exitOf } from './translation.ts'

/** How long a program with much output waits for its first reader, which comes after the start. */
const firstReaderMs = 2000

export interface OutputStreamOptions {
  readonly request: StartRequest
  readonly capacityBytes: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Copies the vendor's event stream of one terminal into a log that several readers share.
 *
 *     vendor's stream ──► log ──► readers
 *            ▲              │
 *            └── reads on only if there is room
 *
 * If the stream breaks while the sandbox is paused, it is reopened after the resume, and readers wait. After any other
 * break, readers get `connection_lost`, and no process is started again.
 */
export class OutputStream {
  pid = 0
  readonly #guest: Guest
  readonly #log: OutputLog
  readonly #cut = new AbortController()
  readonly #startedAt = performance.now()
  #failure: SandboxError | undefined
  #room: Promise<void> | undefined

  private constructor(guest: Guest, capacityBytes: number) {
    this.#guest = guest
    let relieve = () => {}
    this.#log = new OutputLog({
      capacityBytes,
      onPressure: (wait) => {
        if (!wait) return relieve()
        this.#room = new Promise((resolve) => {
          relieve = () => {
            this.#room = undefined
            resolve()
          }
        })
      },
    })
    const giveUp = setTimeout(this.#log.expectReader(), firstReaderMs)
    ;(giveUp as { unref?: () => void }).unref?.()
  }

  /** Resolves when the vendor has started a process. */
  static async start(
    guest: Guest,
    { request, capacityBytes, signal }: OutputStreamOptions,
  ): Promise<OutputStream> {
    const stream = new OutputStream(guest, capacityBytes)
    const controller = new AbortController()
    const forget = onAbort(signal, () => controller.abort(signal!.reason))
    const silence = new Silence(guest.answerMs, 'e2b', undefined)
    const forgetSilence = onAbort(silence.signal, () => controller.abort())
    const requestId = randomId()
    silence.listen()
    try {
      const messages = guest.rpc.start(request, {
        timeoutMs: 0,
        signal: controller.signal,
        headers: { 'x-request-id': requestId },
      })
      const iterator = messages[Symbol.asyncIterator]()
      stream.pid = await firstPid(iterator, requestId)
      void stream.#follow(iterator)
      return stream
    } catch (error) {
      throw await guest.explain(silence.blamed(error), signal, requestId)
    } finally {
      // From here on the program runs and may be silent; the caller's signal applied only to the start.
      silence.rest()
      forgetSilence()
      forget()
    }
  }

  get exit(): ExitEvent | undefined {
    return this.#log.exit
  }

  async *read(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    const ending = signal ? AbortSignal.any([signal, this.#cut.signal]) : this.#cut.signal
    try {
      yield* this.#log.read(after, ending)
    } catch (error) {
      if (this.#failure && !signal?.aborted && SandboxError.is(error, 'aborted')) throw this.#failure
      throw error
    }
  }

  /** Whether the vendor still has the process, if its exit has not arrived. */
  async running(): Promise<boolean> {
    if (!this.#failure) return true
    const all = await this.#guest.do(({ commands }) => commands.list())
    return all.some(({ pid }) => pid === this.pid)
  }

  async #follow(first: AsyncIterator<ProcessMessage>): Promise<void> {
    const { incarnation } = this.#guest
    let iterator = first
    for (;;) {
      try {
        if (await this.#drain(iterator)) return
        throw new SandboxError(
          'connection_lost',
          'E2B ended the stream of a process without its exit status.',
          {
            provider: 'e2b',
            sandboxId: incarnation.sandboxId,
          },
        )
      } catch (error) {
        if (incarnation.paused) {
          await incarnation.resumed()
          if (!incarnation.over) {
            const selector = { case: 'pid' as const, value: this.pid }
            iterator = this.#guest.rpc
              .connect({ process: { selector } }, { timeoutMs: 0 })
              [Symbol.asyncIterator]()
            continue
          }
        }
        return this.#fail(await this.#guest.explain(error))
      }
    }
  }

  /** True if the process has ended. */
  async #drain(iterator: AsyncIterator<ProcessMessage>): Promise<boolean> {
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
      const event = next.value.event?.event
      if (event?.case === 'data') {
        const { output } = event.value
        if (output.value) this.#log.push('stdout', output.value)
        await this.#room
      } else if (event?.case === 'end') {
        this.#log.end({
          ...exitOf(event.value),
          timedOut: false,
          durationMs: performance.now() - this.#startedAt,
        })
        void rest(iterator)
        return true
      }
    }
    return false
  }

  #fail(error: SandboxError): void {
    this.#failure = error
    this.#cut.abort()
  }
}

/** Drains a stream: an unread stream keeps its connection open, and this process alive. */
async function rest(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    while (!(await iterator.next()).done);
  } catch {
    // All events have been delivered, so a failure here does not matter.
  }
}

async function firstPid(iterator: AsyncIterator<ProcessMessage>, requestId: string): Promise<number> {
  const { value, done } = await iterator.next()
  const event = done ? undefined : value.event?.event
  if (event?.case === 'start') return event.value.pid
  throw new SandboxError('provider_error', 'E2B did not confirm that the process was started.', {
    provider: 'e2b',
    requestId,
  })
}

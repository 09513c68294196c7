import { SandboxError } from '../../errors.ts'
import { abortedError, onAbort } from '../../shared/calls/abort.ts'
import { Silence } from '../../shared/calls/silence-timeout.ts'
import { randomId } from '../../shared/ids.ts'
import { OutputLog } from '../../shared/output/output-log.ts'
import type { ExitEvent, ProcessEvent } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'
import type { ProcessMessage, StartRequest, VendorSandbox } from './sdk.ts'
import { exitOf } from './translation.ts'

export interface OutputStreamOptions {
  readonly request: StartRequest
  readonly capacityBytes: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Copies the vendor's event stream of one process into a log that several readers share.
 *
 *     vendor's stream ──► (greeting removed) ──► log ──► readers
 *            ▲                                      │
 *            └──────── reads on only if there is room
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
  #greeting:
    | { nonce: string; text: string; resolve: (line: string) => void; reject: (error: unknown) => void }
    | undefined
  #held: Uint8Array[] = []
  #timedOut = false
  #timer: ReturnType<typeof setTimeout> | undefined

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

  /** The line that starts with the nonce, without the nonce. Readers never see it. */
  greeting(nonce: string, signal: AbortSignal | undefined): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#greeting = { nonce, text: '', resolve, reject }
      const held = this.#held.splice(0)
      for (const data of held) this.#push('stderr', data)
      if (this.#failure) reject(this.#failure)
      else if (this.#log.exit) this.#unsaid()
      onAbort(signal, () => reject(abortedError(signal!, 'The command')))
    })
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

  /** Calls `kill` after this time, and sets `timedOut` in the exit. */
  limit(ms: number, kill: () => Promise<unknown>): void {
    if (this.#log.exit) return
    this.#timer = setTimeout(() => {
      this.#timedOut = true
      kill().catch(() => this.inside(({ commands }) => commands.kill(this.pid)).catch(() => {}))
    }, ms)
  }

  /** Whether the process ends within this time. */
  async over(ms: number): Promise<boolean> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const waited = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
    })
    await Promise.race([this.#log.ended, waited])
    clearTimeout(timer)
    return this.#log.exit !== undefined
  }

  /** Whether the vendor still has the process, if its exit has not arrived. */
  async running(): Promise<boolean> {
    if (!this.#failure) return true
    const all = await this.inside(({ commands }) => commands.list())
    return all.some(({ pid }) => pid === this.pid)
  }

  inside<T>(work: (sandbox: VendorSandbox) => Promise<T>): Promise<T> {
    return this.#guest.do(work)
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
        if (output.case === 'stderr') this.#push('stderr', output.value)
        else if (output.value) this.#log.push('stdout', output.value)
        await this.#room
      } else if (event?.case === 'end') {
        clearTimeout(this.#timer)
        if (this.#greeting) this.#unsaid()
        this.#log.end({
          ...exitOf(event.value),
          timedOut: this.#timedOut,
          durationMs: performance.now() - this.#startedAt,
        })
        void rest(iterator)
        return true
      }
    }
    return false
  }

  #push(type: 'stderr', data: Uint8Array): void {
    const greeting = this.#greeting
    if (greeting === undefined) {
      // The greeting may arrive before it is requested.
      if (this.#greeted) this.#log.push(type, data)
      else this.#held.push(data)
      return
    }
    const text = new TextDecoder('latin1').decode(data)
    const end = text.indexOf('\n')
    greeting.text += end === -1 ? text : text.slice(0, end)
    if (end === -1) return
    this.#greeting = undefined
    this.#greeted = true
    if (!greeting.text.startsWith(`${greeting.nonce} `)) return greeting.reject(noGreeting(greeting.text))
    greeting.resolve(greeting.text.slice(greeting.nonce.length + 1))
    if (end + 1 < data.byteLength) this.#log.push(type, data.subarray(end + 1))
  }

  #greeted = false

  #unsaid(): void {
    const greeting = this.#greeting
    this.#greeting = undefined
    greeting?.reject(noGreeting(greeting.text))
  }

  #fail(error: SandboxError): void {
    clearTimeout(this.#timer)
    this.#failure = error
    this.#greeting?.reject(error)
    this.#greeting = undefined
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

function noGreeting(text: string): SandboxError {
  return new SandboxError(
    'provider_error',
    `The sandbox’s shell did not start the program: ${text.slice(0, 200)}`,
    {
      provider: 'e2b',
      hint: 'The template needs /bin/sh.',
    },
  )
}

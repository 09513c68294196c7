import { SandboxError } from '../errors.ts'
import { abortedError, onAbort } from '../shared/calls/abort.ts'
import { ChunkBuffer } from '../shared/output/chunk-buffer.ts'
import type { OutputEvent, ProcessEvent } from '../spec/index.ts'
import { withoutExit } from './collect.ts'
import type { ProcessDriver } from './driver.ts'

/** How much of one stream is kept while only the other one is read. */
const mostHeldBytes = 8 * 1024 * 1024
/** How long a reader of one stream waits for somebody to open the other one, which is full. */
const patienceMs = 30_000

export type OutputName = OutputEvent['type']

/**
 * Splits the events of a process into two byte streams that are read at different speeds.
 *
 *     events ──► one reader ──┬──► stdout: buffer ──► stream
 *                             └──► stderr: buffer ──► stream
 *
 * Events are read from the moment that a stream is taken, so that the provider drops none. After the first event,
 * reading continues only while a taken stream waits for data and both buffers have room. A program that fills a stream
 * that nothing reads therefore blocks, as it does with Node's pipes, until the stream is read or left. If that stream
 * was never taken, the reader of the other one fails after a while, and the program goes on.
 */
export class SplitOutput {
  readonly #sides = { stdout: new Side(), stderr: new Side() }
  readonly #unwanted: Set<OutputName>
  readonly #execId: string
  readonly #stop = new AbortController()
  #over = false
  #failure: { error: unknown } | undefined
  #wake: () => void = () => {}

  /** `unwanted`: streams that the caller has left. They are not kept until they are taken again. */
  constructor(driver: ProcessDriver, unwanted: Set<OutputName>) {
    this.#execId = driver.execId
    this.#unwanted = unwanted
    for (const name of unwanted) this.#sides[name].state = 'left'
    void this.#run(driver.events(0, this.#stop.signal))
  }

  /** The stream from its beginning. Undefined if it was taken before, or was left. */
  take(type: OutputName, signal: AbortSignal | undefined): ReadableStream<Uint8Array> | undefined {
    const side = this.#sides[type]
    if (side.state !== 'free' || this.#failure || this.#stop.signal.aborted) return undefined
    side.state = 'taken'
    this.#wake()
    const leave = () => {
      this.#unwanted.add(type)
      this.#leave(side)
    }
    const forget = onAbort(signal, () => {
      side.failure = { error: abortedError(signal!, 'Reading the output') }
      leave()
    })
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const chunk = await this.#next(side).catch((error: unknown) => {
            forget()
            throw error
          })
          if (chunk) return controller.enqueue(chunk)
          forget()
          controller.close()
        },
        cancel: () => {
          forget()
          leave()
        },
      },
      { highWaterMark: 0 },
    )
  }

  /** Keeps nothing more of a stream that was not taken: a later `SplitOutput` has it. */
  supersede(): void {
    for (const side of this.#all) if (side.state === 'free') this.#drop(side)
    this.#wake()
  }

  async #next(side: Side): Promise<Uint8Array | undefined> {
    for (;;) {
      if (side.failure) throw side.failure.error
      const chunk = side.buffer.shift()
      if (chunk) {
        this.#wake()
        return chunk
      }
      if (this.#failure) throw this.#failure.error
      if (this.#over) return undefined
      await new Promise<void>((resolve) => {
        side.wake = resolve
        side.waits = true
        this.#wake()
      })
      side.waits = false
    }
  }

  async #run(events: AsyncIterable<ProcessEvent>): Promise<void> {
    try {
      for await (const event of events) {
        if (event.type === 'exit') {
          this.#over = true
          return
        }
        this.#put(this.#sides[event.type], event.data)
        while (!this.#mayRead()) {
          if (this.#stop.signal.aborted) return
          await this.#change()
        }
      }
      throw withoutExit(this.#execId)
    } catch (error) {
      this.#failure = { error }
    } finally {
      for (const side of this.#all) side.wake()
    }
  }

  #put(side: Side, data: Uint8Array): void {
    if (side.state === 'left') return
    side.buffer.push(data)
    side.wake()
  }

  #mayRead(): boolean {
    return this.#all.some(isStarved) && !this.#all.some(isFull)
  }

  /** Resolves when a reader has done something. Gives up when only the opening of a full stream would help. */
  async #change(): Promise<void> {
    const change = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    const stuck = this.#all.some(isStarved) && this.#all.some((side) => side.state === 'free' && isFull(side))
    const timer = stuck ? setTimeout(() => this.#giveUp(), patienceMs) : undefined
    await change
    clearTimeout(timer)
  }

  #giveUp(): void {
    const [name, other] = isStarved(this.#sides.stdout) ? ['stdout', 'stderr'] : ['stderr', 'stdout']
    const side = this.#sides[name as OutputName]
    side.failure = { error: neverOpened(this.#execId, name!, other!) }
    this.#leave(side)
  }

  #drop(side: Side): void {
    side.state = 'left'
    side.buffer.clear()
    side.wake()
  }

  #leave(side: Side): void {
    this.#drop(side)
    if (this.#all.every(({ state }) => state !== 'taken')) this.#stop.abort()
    this.#wake()
  }

  get #all(): Side[] {
    return [this.#sides.stdout, this.#sides.stderr]
  }
}

class Side {
  readonly buffer = new ChunkBuffer()
  state: 'free' | 'taken' | 'left' = 'free'
  /** A reader waits for data. */
  waits = false
  wake: () => void = () => {}
  failure: { error: unknown } | undefined
}

/** Whether its reader waits for data. */
function isStarved({ state, waits, buffer }: Side): boolean {
  return state === 'taken' && waits && buffer.byteLength === 0
}

function isFull({ buffer }: Side): boolean {
  return buffer.byteLength >= mostHeldBytes
}

function neverOpened(execId: string, name: string, other: string): SandboxError {
  return new SandboxError(
    'timeout',
    `Reading ${name} of the process ${execId}: the program has waited ${patienceMs / 1000} s because its ${other} is full and nothing reads it.`,
    {
      retryable: false,
      details: { unread: other },
      hint: `Read process.${other}(), too. If you do not need it, call process.${other}().cancel() first. The program goes on without a reader now.`,
    },
  )
}

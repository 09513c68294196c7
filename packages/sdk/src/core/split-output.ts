import { abortedError, onAbort } from '../shared/calls/abort.ts'
import { ChunkBuffer } from '../shared/output/chunk-buffer.ts'
import type { OutputEvent, ProcessEvent } from '../spec/index.ts'
import { withoutExit } from './collect.ts'
import type { ProcessDriver } from './driver.ts'

/** How much of one stream is kept while only the other one is read. */
const mostHeldBytes = 8 * 1024 * 1024

/**
 * Splits the events of a process into two byte streams that are read at different speeds.
 *
 *     events ──► one reader ──┬──► stdout: buffer ──► stream
 *                             └──► stderr: buffer ──► stream
 *
 * Events are read from the moment that a stream is taken, so that the provider drops none. After the first event,
 * reading continues only while a taken stream waits for data and the buffers of taken streams have room. A program that
 * fills a taken stream that nothing reads therefore blocks, as it does with Node's pipes. The buffer of a stream that
 * was not taken is dropped when it is full.
 */
export class SplitOutput {
  readonly #sides = { stdout: new Side(), stderr: new Side() }
  readonly #execId: string
  readonly #stop = new AbortController()
  #over = false
  #failure: { error: unknown } | undefined
  #wake: () => void = () => {}

  constructor(driver: ProcessDriver) {
    this.#execId = driver.execId
    void this.#run(driver.events(0, this.#stop.signal))
  }

  /** The stream from its beginning. Undefined if it was taken before, or parts of it were dropped. */
  take(type: OutputEvent['type'], signal: AbortSignal | undefined): ReadableStream<Uint8Array> | undefined {
    const side = this.#sides[type]
    if (side.state !== 'free' || this.#failure || this.#stop.signal.aborted) return undefined
    side.state = 'taken'
    const forget = onAbort(signal, () => {
      side.failure = { error: abortedError(signal!, 'Reading the output') }
      this.#leave(side)
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
          this.#leave(side)
        },
      },
      { highWaterMark: 0 },
    )
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
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
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
    if (side.state === 'dropped' || side.state === 'left') return
    if (side.state === 'free' && side.buffer.byteLength + data.byteLength > mostHeldBytes) {
      side.state = 'dropped'
      side.buffer.clear()
      return
    }
    side.buffer.push(data)
    side.wake()
  }

  #mayRead(): boolean {
    const taken = this.#all.filter(({ state }) => state === 'taken')
    return (
      taken.some(({ waits, buffer }) => waits && buffer.byteLength === 0) &&
      taken.every(({ buffer }) => buffer.byteLength < mostHeldBytes)
    )
  }

  #leave(side: Side): void {
    side.state = 'left'
    side.buffer.clear()
    side.wake()
    if (this.#all.every(({ state }) => state !== 'taken')) this.#stop.abort()
    this.#wake()
  }

  get #all(): Side[] {
    return [this.#sides.stdout, this.#sides.stderr]
  }
}

class Side {
  readonly buffer = new ChunkBuffer()
  state: 'free' | 'taken' | 'left' | 'dropped' = 'free'
  /** A reader waits for data. */
  waits = false
  wake: () => void = () => {}
  failure: { error: unknown } | undefined
}

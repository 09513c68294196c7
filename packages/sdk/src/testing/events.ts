import type { OutputOptions, ProcessEvent } from '../spec/index.ts'
import { ok } from './assert.ts'

/** Reads a process's output event by event, so that a test can act in between. */
export class EventReader {
  readonly events: ProcessEvent[] = []
  readonly #iterator: AsyncIterator<ProcessEvent>
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  stdout = ''
  stderr = ''

  constructor(
    process: { output(options?: OutputOptions): AsyncIterable<ProcessEvent> },
    options?: OutputOptions,
  ) {
    this.#iterator = process.output(options)[Symbol.asyncIterator]()
  }

  /** The next event, or undefined at the end. */
  async next(): Promise<ProcessEvent | undefined> {
    const { done, value } = await this.#iterator.next()
    if (done) return undefined
    this.events.push(value)
    if (value.type !== 'exit')
      this[value.type] += this.#decoders[value.type].decode(value.data, { stream: true })
    return value
  }

  async until(text: string, stream: 'stdout' | 'stderr' = 'stdout'): Promise<void> {
    while (!this[stream].includes(text)) {
      const event = await this.next()
      ok(
        event && event.type !== 'exit',
        `The program ended before it printed ${JSON.stringify(text)}; it printed ${JSON.stringify(this[stream].slice(-200))}`,
      )
    }
  }

  /** Reads to the end and returns the exit event, which must exist. */
  async exit(): Promise<Extract<ProcessEvent, { type: 'exit' }>> {
    for (let event = await this.next(); event; event = await this.next()) {
      if (event.type !== 'exit') continue
      ok((await this.next()) === undefined, 'An event came after the exit event')
      return event
    }
    throw new Error('The output ended without an exit event')
  }

  async stop(): Promise<void> {
    await this.#iterator.return?.()
  }
}

/** Whether a promise settles before `others`: shows without a clock that something waits. */
export async function settledBefore(promise: Promise<unknown>, others: Promise<unknown>): Promise<boolean> {
  let settled = false
  promise.then(
    () => {
      settled = true
    },
    () => {
      settled = true
    },
  )
  await others
  return settled
}

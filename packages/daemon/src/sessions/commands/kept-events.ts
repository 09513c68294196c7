import type { OutputBudget, ProcessEvent } from '@sandkasten/sdk'

/** Buffers the newest events of a command, which the store keeps after the command has ended. */
export class KeptEvents {
  #budget: OutputBudget | undefined
  #limit = keptBytes
  /** The bytes that the budget has granted so far. */
  #granted: number
  /** Kept events start at `#head`. */
  #events: ProcessEvent[] = []
  #head = 0
  #bytes = 0

  constructor(budget?: OutputBudget) {
    this.#budget = budget
    this.#granted = budget ? stepBytes : keptBytes
  }

  push(event: ProcessEvent): void {
    this.#events.push(event)
    this.#bytes += costOf(event)
    if (this.#bytes > this.#granted) this.#ask()
    while (this.#bytes > this.#limit && this.#head < this.#events.length - 1) {
      this.#bytes -= costOf(this.#events[this.#head]!)
      this.#head += 1
    }
    // The array references dropped events until it is cut.
    if (this.#head > this.#events.length / 2) {
      this.#events = this.#events.slice(this.#head)
      this.#head = 0
    }
  }

  /** Asks the budget for more bytes. Without room, the buffer stops growing. */
  #ask(): void {
    const more = Math.min(stepBytes, keptBytes - this.#granted)
    if (more <= 0 || !this.#budget) return
    if (this.#budget.take(more)) {
      this.#granted += more
      return
    }
    this.#budget = undefined
    this.#limit = this.#granted
  }

  toJSON(): StoredEvent[] {
    return this.#events.slice(this.#head).map((event) => {
      if (event.type === 'exit') return event
      return { seq: event.seq, type: event.type, base64: Buffer.from(event.data).toString('base64') }
    })
  }
}

/** The form of an event in its row. */
export type StoredEvent =
  | { seq: number; type: 'stdout' | 'stderr'; base64: string }
  | Extract<ProcessEvent, { type: 'exit' }>

export function restoredEvents(json: string | null): ProcessEvent[] {
  if (json === null) return []
  return (JSON.parse(json) as StoredEvent[]).map((event) =>
    event.type === 'exit'
      ? event
      : { seq: event.seq, type: event.type, data: Buffer.from(event.base64, 'base64') },
  )
}

const keptBytes = 1024 * 1024
const stepBytes = 128 * 1024

function costOf(event: ProcessEvent): number {
  return event.type === 'exit' ? 0 : event.data.byteLength + 64
}

import type { OutputBudget, ProcessEvent } from '@sandkasten/sdk'

/** The newest events of a command's output, as far as they are kept in the store once it has ended. */
export class KeptEvents {
  #budget: OutputBudget | undefined
  #limit = keptBytes
  /** What may be kept without asking the budget again. */
  #granted: number
  /** The kept events are those from `#head` on. */
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
    if (this.#head > 1024 && this.#head > this.#events.length / 2) {
      this.#events = this.#events.slice(this.#head)
      this.#head = 0
    }
  }

  /** Without room in the budget it keeps no more than it has. */
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

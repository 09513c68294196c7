import type { ProcessEvent } from '@sandkasten/sdk'

/** The newest events of a command's output, as far as they are kept in the store once it has ended. */
export class KeptEvents {
  readonly #limit: number
  #events: ProcessEvent[] = []
  #bytes = 0

  constructor(limitBytes = keptBytes) {
    this.#limit = limitBytes
  }

  push(event: ProcessEvent): void {
    this.#events.push(event)
    this.#bytes += costOf(event)
    let drop = 0
    while (this.#bytes > this.#limit && drop < this.#events.length - 1) {
      this.#bytes -= costOf(this.#events[drop]!)
      drop += 1
    }
    if (drop > 0) this.#events = this.#events.slice(drop)
  }

  toJSON(): StoredEvent[] {
    return this.#events.map((event) => {
      if (event.type === 'exit') return event
      return { seq: event.seq, type: event.type, base64: Buffer.from(event.data).toString('base64') }
    })
  }
}

/** As they are written in a row. */
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

function costOf(event: ProcessEvent): number {
  return event.type === 'exit' ? 0 : event.data.byteLength + 64
}

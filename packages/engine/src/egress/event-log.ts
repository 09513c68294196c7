import type { EgressEvent } from './wire.ts'

/** As many as the gateway keeps. */
const PER_SANDBOX = 1_000
/** Of all sandboxes together. Texts of events come from inside sandboxes. */
const MAX_BYTES = 32 * 1024 * 1024

/**
 * The events that this process has read, for when the gateway is killed: it has only those since its start. One sandbox
 * cannot displace the events of the others, because the largest log loses its oldest events first.
 */
export class EventLog {
  readonly #logs = new Map<string, Log>()
  readonly #maxBytes: number
  #bytes = 0

  constructor({ maxBytes = MAX_BYTES }: { maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes
  }

  add(event: EgressEvent): void {
    const log = this.#logs.get(event.sandbox) ?? { events: [], bytes: 0 }
    const at = log.events.findLastIndex(({ seq }) => seq <= event.seq)
    if (log.events[at]?.seq === event.seq) return
    log.events.splice(at + 1, 0, event)
    this.#grow(log, sizeOf(event))
    this.#logs.set(event.sandbox, log)
    if (log.events.length > PER_SANDBOX) this.#shrink(log)
    while (this.#bytes > this.#maxBytes) this.#shrink(this.#largest())
  }

  /** The known events together with those that the gateway has, in their order and without duplicates. */
  merged(sandboxId: string, after: number, events: readonly EgressEvent[]): EgressEvent[] {
    for (const event of events) this.add(event)
    const known = this.#logs.get(sandboxId)?.events ?? []
    // Those that do not fit into the log are there, too.
    const all = new Map([...known, ...events].map((event) => [event.seq, event]))
    return [...all.values()].filter(({ seq }) => seq > after).sort((a, b) => a.seq - b.seq)
  }

  forget(sandboxId: string): void {
    this.#bytes -= this.#logs.get(sandboxId)?.bytes ?? 0
    this.#logs.delete(sandboxId)
  }

  #grow(log: Log, bytes: number): void {
    log.bytes += bytes
    this.#bytes += bytes
  }

  #shrink(log: Log): void {
    const oldest = log.events.shift()
    if (oldest) this.#grow(log, -sizeOf(oldest))
  }

  #largest(): Log {
    return [...this.#logs.values()].reduce((a, b) => (b.bytes > a.bytes ? b : a))
  }
}

interface Log {
  /** In the order of their numbers. */
  readonly events: EgressEvent[]
  bytes: number
}

function sizeOf({ sandbox, host, address, rule, reason, method, path }: EgressEvent): number {
  const texts = [sandbox, host, address, rule, reason, method, path]
  return texts.reduce((size, text) => size + 2 * (text?.length ?? 0), 400)
}

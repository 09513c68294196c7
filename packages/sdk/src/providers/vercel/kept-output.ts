import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import type { ProcessEvent } from '../../spec/index.ts'
import { gone } from './process.ts'
import type { ProcessLog } from './process-log.ts'

/** The last output of an ended program, up to the requested size. */
export class KeptOutput {
  readonly #events: ProcessEvent[] = []
  #head = 0
  #bytes = 0
  #most = Infinity

  push(event: ProcessEvent, most: number | undefined): void {
    this.#most = most ?? this.#most
    this.#events.push(event)
    this.#bytes += costOf(event)
    // Always keep the newest chunk and the exit, regardless of size.
    while (this.#bytes > this.#most && this.#head < this.#events.length - 2) {
      this.#bytes -= costOf(this.#events[this.#head]!)
      this.#head += 1
    }
    // The array references dropped events until it is cut.
    if (this.#head > this.#events.length / 2) {
      this.#events.splice(0, this.#head)
      this.#head = 0
    }
  }

  /** Throws `gone`. */
  after(seq: number): ProcessEvent[] {
    const kept = this.#events.slice(this.#head)
    const oldest = kept[0]?.seq
    if (oldest !== undefined && seq + 1 < oldest) throw gone(seq, oldest)
    return kept.filter((event) => event.seq > seq)
  }
}

export async function replayed(
  open: () => Promise<ProcessLog>,
  signal: AbortSignal | undefined,
): Promise<KeptOutput> {
  const log = await open()
  const kept = new KeptOutput()
  try {
    let most: number | undefined
    for (;;) {
      const said = await abortable(log.next(), signal, 'Reading the output')
      if (!said)
        throw new SandboxError('connection_lost', 'The log of an ended program is incomplete.', {
          provider: 'vercel',
        })
      if (said.kind !== 'refused') most = said.keptBytes ?? most
      if (said.kind !== 'event') continue
      kept.push(said.event, most)
      if (said.event.type === 'exit') return kept
    }
  } finally {
    log.close()
  }
}

function costOf(event: ProcessEvent): number {
  return event.type === 'exit' ? 0 : event.data.byteLength
}

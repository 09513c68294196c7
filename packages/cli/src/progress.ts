import type { ImageProgress } from '@sandkasten/engine'

/** One line that changes, on a terminal; elsewhere a line for each new step, and no more than that. */
export class Progress {
  readonly #out: NodeJS.WriteStream
  #last = ''
  #shownAt = 0

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  show(event: ImageProgress): void {
    if (this.#out.isTTY) return this.#rewrite(event)
    const step = stepOf(event)
    if (step === this.#last) return
    this.#last = step
    this.#out.write(`${step}\n`)
  }

  /** Takes the line away. */
  end(): void {
    if (this.#out.isTTY && this.#last !== '') this.#out.write('\r\x1b[K')
    this.#last = ''
  }

  #rewrite(event: ImageProgress): void {
    const isNew = stepOf(event) !== this.#last
    // People read ten lines a second at most.
    if (!isNew && performance.now() - this.#shownAt < 100) return
    this.#last = stepOf(event)
    this.#shownAt = performance.now()
    this.#out.write(`\r\x1b[K${lineOf(event).slice(0, (this.#out.columns || 80) - 1)}`)
  }
}

export function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  return `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(1)} ${units[power]}`
}

/** What does not change while it goes on. */
function stepOf(event: ImageProgress): string {
  if (event.phase === 'build') return `building: ${event.step}`
  return event.phase === 'fetch'
    ? `fetching ${sizeText(event.total)}`
    : `unpacking layer ${event.layer} of ${event.layers}`
}

function lineOf(event: ImageProgress): string {
  if (event.phase === 'fetch' && event.total > 0)
    return `${stepOf(event)}: ${Math.floor((event.done / event.total) * 100)} %`
  return event.phase === 'unpack' ? `${stepOf(event)}: ${sizeText(event.bytes)}` : stepOf(event)
}

/** Shows on a terminal what is waited for, once it takes longer than a moment; elsewhere nothing. */
export async function waiting<T>(what: string, work: Promise<T>, out = process.stderr): Promise<T> {
  if (!out.isTTY) return work
  const startedAt = performance.now()
  let shown = false
  const timer = setInterval(() => {
    const seconds = Math.floor((performance.now() - startedAt) / 1000)
    shown = true
    out.write(`\r\x1b[K${what}… ${seconds > 0 ? `${seconds} s` : ''}`)
  }, 300)
  try {
    return await work
  } finally {
    clearInterval(timer)
    if (shown) out.write('\r\x1b[K')
  }
}

import type { ImageProgress } from '@sandkasten/engine'
import { sizeText, widthOf } from './format.ts'

export { sizeText }

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
  return showing((seconds) => `${what}… ${seconds >= 1 ? `${Math.floor(seconds)} s` : ''}`, work, out)
}

/** One line that is written again while the work goes on, on a terminal; elsewhere nothing. */
export async function showing<T>(
  line: (seconds: number) => string,
  work: Promise<T>,
  out = process.stderr,
): Promise<T> {
  if (!out.isTTY) return work
  const startedAt = performance.now()
  let shown = false
  const timer = setInterval(() => {
    shown = true
    const text = line((performance.now() - startedAt) / 1000)
    // A line that wraps could not be taken away again.
    out.write(`\r\x1b[K${text.slice(0, (widthOf(out) ?? 80) - 1)}`)
  }, 300)
  try {
    return await work
  } finally {
    clearInterval(timer)
    if (shown) out.write('\r\x1b[K')
  }
}

/** What of a copy has been done: bytes, percent where the size is known, and the rate of the last seconds. */
export class Meter {
  /** Undefined where it is not known. */
  total: number | undefined
  #done = 0
  #marks: Array<{ at: number; done: number }> = []

  get done(): number {
    return this.#done
  }

  add(bytes: number): void {
    this.#done += bytes
  }

  line(now = performance.now()): string {
    this.#marks.push({ at: now, done: this.#done })
    while (this.#marks.length > 2 && now - this.#marks[0]!.at > 5_000) this.#marks.shift()
    const first = this.#marks[0]!
    const seconds = (now - first.at) / 1000
    const rate = seconds > 0 ? `, ${sizeText(Math.round((this.#done - first.done) / seconds))}/s` : ''
    const { total } = this
    if (!total) return `${sizeText(this.#done)}${rate}`
    const percent = Math.min(Math.floor((this.#done / total) * 100), 100)
    return `${sizeText(this.#done)} of ${sizeText(total)}, ${percent} %${rate}`
  }
}

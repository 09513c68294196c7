import type { ImageProgress } from '@sandkasten/engine'
import { sizeText, widthOf } from './format.ts'

export { sizeText }

/** On a terminal, one line that is updated; elsewhere one line for each new step. */
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

  end(): void {
    if (this.#out.isTTY && this.#last !== '') this.#out.write('\r\x1b[K')
    this.#last = ''
  }

  #rewrite(event: ImageProgress): void {
    const isNew = stepOf(event) !== this.#last
    // At most ten updates a second.
    if (!isNew && performance.now() - this.#shownAt < 100) return
    this.#last = stepOf(event)
    this.#shownAt = performance.now()
    this.#out.write(`\r\x1b[K${lineOf(event).slice(0, (this.#out.columns || 80) - 1)}`)
  }
}

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

/** On a terminal, shows what is being waited for if it takes longer than a moment. */
export async function waiting<T>(what: string, work: Promise<T>, out = process.stderr): Promise<T> {
  return showing((seconds) => `${what}… ${seconds >= 1 ? `${Math.floor(seconds)} s` : ''}`, work, out)
}

/** On a terminal, shows a line that is updated during the work. */
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
    // A line that wraps could not be erased.
    out.write(`\r\x1b[K${text.slice(0, (widthOf(out) ?? 80) - 1)}`)
  }, 300)
  try {
    return await work
  } finally {
    clearInterval(timer)
    if (shown) out.write('\r\x1b[K')
  }
}

/** Progress of a copy: bytes, percent if the size is known, and the recent rate. */
export class Meter {
  /** Undefined: unknown. */
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

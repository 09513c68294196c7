import { type Sample, sampleOf, type Turn, takeTurns } from './measure.ts'

/** A measurement and, if it has a target, its result: `met` is `ratio <= target`. */
export interface Line {
  readonly id: string
  readonly p50: number
  readonly p95: number
  readonly unit: string
  readonly count: number
  readonly ratio?: number
  readonly target?: number
  /** The denominator of the ratio: the id of another line, or a number with its unit. */
  readonly against?: string
  readonly met?: boolean
}

/** Collects measurements and prints them with their targets, as text or JSON. */
export class Report {
  readonly failures: string[] = []
  readonly #lines = new Map<string, Line>()
  readonly #limits = new Map<string, number>()
  readonly #json: boolean

  constructor({ json }: { json: boolean }) {
    this.#json = json
  }

  add(id: string, values: readonly number[] | Sample, unit = 'ms'): void {
    const { p50, p95, count } = 'p50' in values ? values : sampleOf(values)
    const line = { id, p50: rounded(p50), p95: rounded(p95), unit, count }
    const limit = this.#limits.get(id)
    this.#put(limit === undefined ? line : { ...line, ...within(p50, limit, unit) })
    if (!this.#json) console.log(row(line))
  }

  /** Sets an absolute target for lines of this id, in their unit. */
  limit(id: string, atMost: number): void {
    this.#limits.set(id, atMost)
  }

  /** Compares two lines of this run. Does nothing if one is missing. */
  compare(of: string, against: string, atMost: number): void {
    const mine = this.#lines.get(of)
    const other = this.#lines.get(against)
    if (!mine || !other) return
    const ratio = mine.p50 / other.p50
    const id = `${of}/${against}`
    this.#put({ ...mine, id, ratio: rounded(ratio), target: atMost, against, met: ratio <= atMost })
    this.recall(id)
  }

  recall(id: string): void {
    const line = this.#lines.get(id)
    if (line && !this.#json) console.log(`${line.met ? '✓' : '✗'} ${sentence(line)}`)
  }

  skip(id: string, reason: string): void {
    if (this.#json) console.log(JSON.stringify({ id, skipped: reason }))
    else console.log(`${id.padEnd(idWidth)} skipped: ${reason}`)
  }

  fail(id: string, error: unknown): void {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.failures.push(id)
    if (this.#json)
      console.log(JSON.stringify({ id, failed: error instanceof Error ? error.message : reason }))
    else console.log(`${id.padEnd(idWidth)} FAILED: ${reason}`)
  }

  heading(text: string): void {
    if (!this.#json)
      console.log(
        `\n${text}\n${'id'.padEnd(idWidth)} ${'p50'.padStart(10)} ${'p95'.padStart(10)}  unit       n`,
      )
  }

  /** The summary: missed targets and failed measurements. Goes to stderr with --json. */
  close(): void {
    const say = this.#json ? console.error : console.log
    const held = [...this.#lines.values()].filter(({ met }) => met !== undefined)
    const missed = held.filter(({ met }) => met === false)
    say('')
    if (held.length === 0) say('No target was measured.')
    else say(`${held.length - missed.length} of ${held.length} targets were met.`)
    for (const line of missed) say(`MISSED ${sentence(line)}`)
    for (const id of this.failures) say(`FAILED ${id}: it could not be measured; see above.`)
  }

  #put(line: Line): void {
    this.#lines.set(line.id, line)
    if (this.#json) console.log(JSON.stringify(line))
  }
}

export async function reportTurns(
  { report, wants }: { readonly report: Report; wants(id: string): boolean },
  turns: readonly Turn[],
  rounds: number,
): Promise<void> {
  const wanted = turns.filter(({ id }) => wants(id))
  const values = await takeTurns(wanted, rounds, (id, error) => report.fail(id, error))
  for (const { id } of wanted) {
    const found = values.get(id)
    if (found) report.add(id, found)
  }
}

const idWidth = 30

function row({ id, p50, p95, unit, count }: Line): string {
  const numbers = [p50, p95].map((value) => String(value).padStart(10)).join(' ')
  return `${id.padEnd(idWidth)} ${numbers}  ${unit.padEnd(8)} ${String(count).padStart(3)}`
}

function sentence({ id, p50, unit, ratio, target, against }: Line): string {
  const [name, other] = id.split('/')
  if (other === undefined) return `${name}: ${p50} ${unit}; at most ${against} was promised`
  return `${name}: ${p50} ${unit} is ${ratio} × ${against}; at most ${rounded(target ?? 0)} × was promised`
}

/** A target of zero cannot be divided by; then the value itself is the ratio. */
function within(value: number, atMost: number, unit: string): Partial<Line> {
  const against = `${atMost} ${unit}`
  if (atMost === 0) return { ratio: value, target: 0, against, met: value === 0 }
  return { ratio: rounded(value / atMost), target: 1, against, met: value <= atMost }
}

function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}

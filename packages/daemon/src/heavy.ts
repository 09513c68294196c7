/**
 * Keeps large texts from holding up small requests. Work on them is done in steps of some milliseconds. All such steps in
 * this process take turns, and after each there is a pause of twice its time: at least two thirds of the thread's time are
 * for everything else.
 */

/** Texts up to this length take less than a step. */
export const stepChars = 262_144

const waiting: Array<() => void> = []
let turning = false

/** Resolves when it is this step's turn. */
export function heavyStep(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (turning) return
    turning = true
    setImmediate(nextStep)
  })
}

function nextStep(): void {
  const step = waiting.shift()
  turning = step !== undefined
  if (!step) return
  const startedAt = performance.now()
  step()
  setImmediate(() => setTimeout(nextStep, 2 * (performance.now() - startedAt)))
}

/** The JSON of an object, in pieces: long texts in it are encoded step by step. */
export async function* jsonPieces(value: Record<string, unknown>): AsyncGenerator<string> {
  let before = '{'
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue
    before += `${before === '{' ? '' : ','}${JSON.stringify(key)}:`
    if (typeof item === 'string' && item.length > stepChars) {
      yield `${before}"`
      yield* textPieces(item)
      before = '"'
    } else if (longChars(item) > 0) {
      yield before
      yield* jsonPieces(item as Record<string, unknown>)
      before = ' '
    } else before += JSON.stringify(item)
  }
  yield `${before}}`
}

async function* textPieces(text: string): AsyncGenerator<string> {
  for (let at = 0; at < text.length; ) {
    const end = characterEnd(text, at + stepChars)
    await heavyStep()
    yield JSON.stringify(text.slice(at, end)).slice(1, -1)
    at = end
  }
}

/** How much of it `jsonPieces` does in steps: characters of long texts in the object, and in objects in it. */
export function longChars(value: unknown, depth = 1): number {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 0
  let chars = 0
  for (const item of Object.values(value))
    if (typeof item === 'string') chars += item.length > stepChars ? item.length : 0
    else if (depth > 0) chars += longChars(item, depth - 1)
  return chars
}

/** The first place from `at` on that is not between the two halves of a character. */
export function characterEnd(text: string, at: number): number {
  if (at >= text.length) return text.length
  const unit = text.charCodeAt(at)
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at
}

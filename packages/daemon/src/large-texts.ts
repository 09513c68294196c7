/**
 * Keeps work on large texts from delaying small requests. The work is split into steps of some milliseconds, and all
 * steps in this process take turns. A pause of twice the step's duration follows each step, so at least two thirds of
 * the thread's time remain for other work.
 */

/** Work on a text of this length takes less than one step. */
export const stepChars = 262_144

const waiting: Array<() => void> = []
let isScheduled = false

/** Resolves when the caller may do its next step. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (isScheduled) return
    isScheduled = true
    setImmediate(nextStep)
  })
}

function nextStep(): void {
  const step = waiting.shift()
  isScheduled = step !== undefined
  if (!step) return
  const startedAt = performance.now()
  step()
  setImmediate(() => setTimeout(nextStep, 2 * (performance.now() - startedAt)))
}

/** The JSON of an object, in chunks. Long texts in it are encoded step by step. */
export async function* jsonChunks(value: Record<string, unknown>): AsyncGenerator<string> {
  let before = '{'
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue
    before += `${before === '{' ? '' : ','}${JSON.stringify(key)}:`
    if (typeof item === 'string' && item.length > stepChars) {
      yield `${before}"`
      yield* textChunks(item)
      before = '"'
    } else if (longChars(item) > 0) {
      yield before
      yield* jsonChunks(item as Record<string, unknown>)
      before = ' '
    } else before += JSON.stringify(item)
  }
  yield `${before}}`
}

async function* textChunks(text: string): AsyncGenerator<string> {
  for (let at = 0; at < text.length; ) {
    const end = characterEnd(text, at + stepChars)
    await nextTurn()
    yield JSON.stringify(text.slice(at, end)).slice(1, -1)
    at = end
  }
}

/** How many characters `jsonChunks` encodes in steps: those of long texts in the object and in its direct children. */
export function longChars(value: unknown, depth = 1): number {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 0
  let chars = 0
  for (const item of Object.values(value))
    if (typeof item === 'string') chars += item.length > stepChars ? item.length : 0
    else if (depth > 0) chars += longChars(item, depth - 1)
  return chars
}

/** The first index from `at` on that does not split a surrogate pair. */
export function characterEnd(text: string, at: number): number {
  if (at >= text.length) return text.length
  const unit = text.charCodeAt(at)
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at
}

/**
 * The next migration tag, in the style of the file. Cloudflare applies the tags that a Worker has not seen yet, so a
 * tag must never be reused.
 */

/** `existing` in file order; `today` as `2026-01-31`; `slug` names the change for styles with words. */
export function nextTag(existing: readonly string[], today: string, slug: string): string {
  const taken = new Set(existing)
  const last = existing.at(-1)
  const candidates = last === undefined ? counted('v', 1, 1, '') : styleOf(last, existing, today, slug)
  for (const tag of candidates) if (!taken.has(tag)) return tag
  throw new Error('unreachable: the candidates never end')
}

function styleOf(last: string, existing: readonly string[], today: string, slug: string): Iterable<string> {
  if (/^\d{4}-\d{2}-\d{2}(\D|$)/.test(last)) return dated(today)
  if (/^(19|20)\d{2}(0[1-9]|1[0-2])([0-2]\d|3[01])(\D|$)/.test(last)) return dated(today.replaceAll('-', ''))
  // Number first, words after (`0002_add_rooms`, `v3-rooms`): the words describe the earlier change.
  const numberFirst = /^(\D*)(\d+)([-_. ])(.*[A-Za-z].*)$/.exec(last)
  if (numberFirst) {
    const [, prefix = '', digits = '', separator = ''] = numberFirst
    const sameStyle = new RegExp(`^${literal(prefix)}(\\d+)(?:[-_. ].*)?$`)
    return counted(prefix, 1 + highest(existing, sameStyle), digits.length, separator + slug)
  }
  const numberLast = /^(.*?)(\d+)$/.exec(last)
  if (numberLast) {
    const [, prefix = '', digits = ''] = numberLast
    return counted(prefix, 1 + highest(existing, new RegExp(`^${literal(prefix)}(\\d+)$`)), digits.length, '')
  }
  return counted('v', 1 + highest(existing, /^v(\d+)$/), 1, '')
}

function highest(existing: readonly string[], pattern: RegExp): number {
  const numbers = existing.map((tag) => Number(pattern.exec(tag)?.[1] ?? 0))
  return Math.max(0, ...numbers.filter(Number.isSafeInteger))
}

function* counted(prefix: string, from: number, width: number, suffix: string): Generator<string> {
  for (let number = from; ; number++) yield `${prefix}${String(number).padStart(width, '0')}${suffix}`
}

function* dated(today: string): Generator<string> {
  yield today
  for (let number = 2; ; number++) yield `${today}-${number}`
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

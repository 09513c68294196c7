/**
 * Formats a line of pino's JSON for people: `15:04:05.123 INFO  listening url=http://127.0.0.1:8080`.
 *
 * Values may come from a sandbox or a request. Control characters are escaped, because they could move the cursor or
 * change the title of a terminal. pino-pretty does not escape them, and has a dozen dependencies.
 */
export function textOf(line: string, { colors = false } = {}): string {
  let entry: Record<string, unknown>
  try {
    entry = JSON.parse(line)
  } catch {
    return `${escaped(line)}\n`
  }
  const { level, time, msg, err, ...facts } = entry
  const [name, color] = levels[Number(level)] ?? [String(level), 0]
  const paint = (code: number, text: string) => (colors && code ? `\x1b[${code}m${text}\x1b[0m` : text)
  const shown = Object.entries(facts).map(([key, value]) => `${paint(2, `${escaped(key)}=`)}${factOf(value)}`)
  const head = [paint(2, clock(time)), paint(color, name.padEnd(5)), escaped(String(msg ?? '')), ...shown]
  return `${head.join(' ')}${err === undefined ? '' : errorOf(err)}\n`
}

const levels: Readonly<Record<number, readonly [name: string, color: number]>> = {
  20: ['DEBUG', 2],
  30: ['INFO', 32],
  40: ['WARN', 33],
  50: ['ERROR', 31],
  60: ['FATAL', 31],
}

function clock(time: unknown): string {
  const at = new Date(Number(time))
  if (Number.isNaN(at.getTime())) return '??:??:??'
  const two = (part: number) => String(part).padStart(2, '0')
  const ms = String(at.getMilliseconds()).padStart(3, '0')
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`
}

function factOf(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return escaped(value)
  return escaped(JSON.stringify(value, (_, inner) => rounded(inner)) ?? String(value))
}

/** Rounds numbers with many decimals, such as durations. */
function rounded(value: unknown): unknown {
  return typeof value === 'number' && Number.isFinite(value) ? Math.round(value * 10) / 10 : value
}

/** The stack, indented on separate lines. An error without a stack is shown as a value. */
function errorOf(err: unknown): string {
  const { stack } = (typeof err === 'object' && err !== null ? err : {}) as { stack?: unknown }
  if (typeof stack !== 'string') return ` err=${factOf(err)}`
  return `\n${stack
    .split('\n')
    .map((line) => `    ${escaped(line.trim())}`)
    .join('\n')}`
}

/** Escapes control characters, including C1 and bidirectional ones. */
function escaped(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

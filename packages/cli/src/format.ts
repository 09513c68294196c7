/** The width of the terminal behind a stream; undefined if it is not a terminal. */
export function widthOf(stream: NodeJS.WriteStream): number | undefined {
  return stream.isTTY ? Math.max(stream.columns || 80, 20) : undefined
}

export function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  return `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(1)} ${units[power]}`
}

const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const

/** `90` → `1 min 30 s`; at most two units, whole seconds. */
export function durationText(seconds: number): string {
  const whole = Math.round(seconds)
  const first = units.findIndex(([, size]) => whole >= size)
  if (first === -1) return `${whole} s`
  const [name, size] = units[first]!
  const rest = whole % size
  const next = units[first + 1]
  const amount = next ? Math.floor(rest / next[1]) : 0
  return `${Math.floor(whole / size)} ${name}${next && amount > 0 ? ` ${amount} ${next[0]}` : ''}`
}

/** `3 min ago`, `in 2 h`; with `iso`, the timestamp. */
export function timeText(
  time: string | null | undefined,
  { iso = false, now = Date.now() }: { iso?: boolean; now?: number } = {},
): string | undefined {
  if (!time || iso) return time ?? undefined
  const seconds = (Date.parse(time) - now) / 1000
  if (Number.isNaN(seconds)) return time
  if (Math.abs(seconds) < 1) return 'now'
  const [name, size] = units.find(([, size]) => Math.abs(seconds) >= size)!
  const amount = `${Math.round(Math.abs(seconds) / size)} ${name}`
  return seconds < 0 ? `${amount} ago` : `in ${amount}`
}

/** Wraps between words. A word longer than the line is not broken: it is a path or an id to copy. */
export function wrap(text: string, width: number | undefined, indent = ''): string {
  if (width === undefined) return text
  return text
    .split('\n')
    .map((line) => {
      const lead = /^\s*/.exec(line)![0]
      const lines: string[] = []
      let current = lead
      for (const word of line.slice(lead.length).split(' ')) {
        const next = current.trim() === '' ? `${current}${word}` : `${current} ${word}`
        if (next.length <= width || current.trim() === '') current = next
        else {
          lines.push(current)
          current = `${indent || lead}${word}`
        }
      }
      return [...lines, current].join('\n')
    })
    .join('\n')
}

/** Removes control characters: names and commands are untrusted and must not control the terminal. */
export function oneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/\p{Cc}/gu, '·')
    .trim()
}

export function cut(text: string, width: number): string {
  const letters = [...text]
  return letters.length <= width ? text : `${letters.slice(0, Math.max(width - 1, 0)).join('')}…`
}

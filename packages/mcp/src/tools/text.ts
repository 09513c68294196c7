import { stripVTControlCharacters } from 'node:util'

/**
 * Output of a program as text for a model: without colours, control characters and overwritten progress lines. Many
 * unfinished control sequences take quadratic time, so callers limit the text: 24,000 bytes take at most 0.1 s.
 */
export function cleanOutput(text: string): string {
  const lines = stripVTControlCharacters(text).split('\n').map(lastPart)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed.
  return lines.join('\n').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
}

/** A carriage return begins the line again: what a terminal would show is its last part. */
function lastPart(line: string): string {
  const shown = line.endsWith('\r') ? line.slice(0, -1) : line
  return shown.slice(shown.lastIndexOf('\r') + 1)
}

/** A name or message as one short line, whatever the sandbox put into it. */
export function oneLine(text: string, maxChars = 200): string {
  const begin = text.slice(0, 4 * maxChars)
  const line = cleanOutput(begin)
    .replace(/[\s\u2028\u2029]+/g, ' ')
    .trim()
  return line.length <= maxChars && begin === text ? line : `${line.slice(0, maxChars - 1)}…`
}

/** A file name. One with line breaks or invisible characters is quoted, so that it stays one line. */
export function shownName(name: string): string {
  return /[\p{Cc}\p{Cf}\u2028\u2029]/u.test(name) ? JSON.stringify(name) : name
}

/** Head and tail, in lines and then in characters. A cut never splits a surrogate pair. */
export function shortened(text: string, maxChars: number, maxLines = Number.POSITIVE_INFINITY): string {
  const lines = text.split('\n')
  if (lines.length > maxLines) {
    const half = Math.floor(maxLines / 2)
    const note = `[… ${lines.length - 2 * half} lines left out …]`
    return shortened([...lines.slice(0, half), note, ...lines.slice(-half)].join('\n'), maxChars)
  }
  if (text.length <= maxChars) return text
  const half = Math.floor(maxChars / 2)
  const head = text.slice(0, half).replace(/[\ud800-\udbff]$/, '')
  const tail = text.slice(-half).replace(/^[\udc00-\udfff]/, '')
  return `${head}\n[… ${text.length - head.length - tail.length} characters left out …]\n${tail}`
}

export function plural(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`
}

export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`
}

import { plural } from './text.ts'

export interface Edit {
  readonly oldString: string
  readonly newString: string
  readonly replaceAll: boolean
}

export type Edited =
  | { readonly text: string; readonly replaced: number; readonly lines: number[] }
  /** `FILE` stands for the file’s name. */
  | { readonly problem: string }

/** Replaces text exactly. In a file with Windows line endings, both strings may have plain ones. */
export function applyEdit(text: string, { oldString, newString, replaceAll }: Edit): Edited {
  if (oldString === newString) return { problem: 'oldString and newString are the same.' }
  const isWindows = !oldString.includes('\r') && /\r\n/.test(text) && oldString.includes('\n')
  const wanted = isWindows ? withWindowsBreaks(oldString) : oldString
  const inserted = isWindows ? withWindowsBreaks(newString) : newString
  const found = positionsOf(text, wanted)
  if (found.length === 0) return { problem: absent(text, oldString) }
  const lines = lineNumbers(text, found)
  if (found.length > 1 && !replaceAll) {
    const shown = `${lines.slice(0, 20).join(', ')}${lines.length > 20 ? ', …' : ''}`
    return {
      problem: `oldString occurs ${found.length} times in FILE, at lines ${shown}. Include lines around it, or pass replaceAll.`,
    }
  }
  return { text: text.split(wanted).join(inserted), replaced: found.length, lines }
}

function positionsOf(text: string, wanted: string): number[] {
  const found: number[] = []
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) found.push(at)
  return found
}

function lineNumbers(text: string, positions: readonly number[]): number[] {
  let line = 1
  let at = 0
  return positions.map((position) => {
    for (let next = text.indexOf('\n', at); next !== -1 && next < position; next = text.indexOf('\n', at)) {
      line += 1
      at = next + 1
    }
    return line
  })
}

/** Where the text is with other spaces, which is the usual mistake. */
function absent(text: string, oldString: string): string {
  const wanted = oldString.split('\n').map(squeezed)
  const lines = text.split('\n').map(squeezed)
  const near: number[] = []
  // Comparing every position takes too long for huge files and texts.
  const last = lines.length * wanted.length > 10_000_000 ? -1 : lines.length - wanted.length
  for (let at = 0; at <= last && near.length < 5; at += 1)
    if (wanted.every((line, offset) => lines[at + offset] === line)) near.push(at + 1)
  const hint =
    near.length === 0
      ? 'Read the file, and copy the text exactly.'
      : `It occurs with other spaces at line ${near.join(', ')}: read these lines, and copy them exactly.`
  return `oldString does not occur in FILE (${plural(text === '' ? 0 : lines.length - (text.endsWith('\n') ? 1 : 0), 'line')}). ${hint}`
}

function squeezed(line: string): string {
  return line.replace(/\s+/g, ' ').trim()
}

function withWindowsBreaks(text: string): string {
  return text.replace(/\r?\n/g, '\r\n')
}

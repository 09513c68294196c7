import { cut, oneLine, widthOf, wrap } from './format.ts'

export interface Column {
  title: string
  /** On a narrow terminal the column may be cut to this many characters. Undefined: never cut. */
  min?: number
  /** On a narrow terminal columns are dropped in descending order of this number. Undefined: never dropped. */
  drop?: number
}

type Cell = string | number | null | undefined

const gap = 2

/** Formats rows. On a terminal each row fits into a line; otherwise nothing is cut. */
export function table(
  columns: ReadonlyArray<Column | string>,
  rows: ReadonlyArray<readonly Cell[]>,
  width: number | undefined = widthOf(process.stdout),
): string {
  const all = columns.map((column, index) => {
    const { title, min, drop } = typeof column === 'string' ? { title: column } : (column as Column)
    const cells = rows.map((row) => (row[index] == null ? '–' : oneLine(String(row[index]))))
    const size = Math.max(title.length, ...cells.map((cell) => [...cell].length))
    return { title, cells, size, min: min === undefined ? size : Math.min(Math.max(min, 1), size), drop }
  })
  const shown = fitted(all, width)
  return [undefined, ...rows.keys()]
    .map((row) =>
      shown
        .map(({ title, cells, size }) => pad(cut(row === undefined ? title : cells[row]!, size), size))
        .join(' '.repeat(gap))
        .trimEnd(),
    )
    .join('\n')
}

interface Measured {
  title: string
  cells: string[]
  size: number
  min: number
  drop?: number
}

/** Drops columns until the rest fits at its minimum width, then cuts the widest first. */
function fitted(columns: Measured[], width: number | undefined): Measured[] {
  if (width === undefined) return columns
  const total = (list: Measured[], key: 'size' | 'min') =>
    list.reduce((sum, column) => sum + column[key] + gap, -gap)
  let left = columns
  while (total(left, 'min') > width) {
    const worst = left.reduce((a, b) => ((b.drop ?? 0) > (a.drop ?? 0) ? b : a))
    if (!worst.drop) break
    left = left.filter((column) => column !== worst)
  }
  left = left.map((column) => ({ ...column }))
  while (total(left, 'size') > width) {
    const widest = left.filter(({ size, min }) => size > min).sort((a, b) => b.size - a.size)[0]
    if (!widest) break
    widest.size -= 1
  }
  return left
}

function pad(text: string, size: number): string {
  return text + ' '.repeat(Math.max(size - [...text].length, 0))
}

export function print(json: boolean | undefined, value: unknown, text: () => string): void {
  console.log(json ? JSON.stringify(value, null, 2) : wrap(text(), widthOf(process.stdout)))
}

/** Formats `name: value` lines; long values are wrapped and indented. */
export function facts(
  pairs: ReadonlyArray<readonly [string, Cell]>,
  width: number | undefined = widthOf(process.stdout),
): string {
  const size = Math.max(...pairs.map(([name]) => name.length)) + 2
  const lines = pairs.map(([name, value]) => `${pad(`${name}:`, size)}${oneLine(String(value ?? '–'))}`)
  return lines.map((line) => wrap(line, width, ' '.repeat(size))).join('\n')
}

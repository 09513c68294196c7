/** Rows for people: columns under their names. */
export function table(
  columns: readonly string[],
  rows: ReadonlyArray<ReadonlyArray<string | number | null | undefined>>,
): string {
  const cells = [columns, ...rows.map((row) => row.map((cell) => String(cell ?? '–')))]
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => (row[index] ?? '').length)))
  return cells
    .map((row) =>
      row
        .map((cell, index) => (cell ?? '').padEnd(widths[index]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function print(json: boolean | undefined, value: unknown, text: () => string): void {
  console.log(json ? JSON.stringify(value, null, 2) : text())
}

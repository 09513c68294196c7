import { invalid } from './jsonc.ts'

/**
 * Sets one table in TOML. The table is replaced as a block of lines, from its header to the next one, so the rest of
 * the file keeps its comments; a parser that writes TOML would lose them.
 */
export function withTomlTable(
  text: string,
  at: readonly string[],
  value: Readonly<Record<string, unknown>>,
  { file }: { file: string },
): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n'
  const block = tomlTable(at, value)
  const lines = text.split(/\r?\n/)
  refuseUnusual(lines, at, file)
  const own = lines.flatMap((line, index) => (headerOf(line) === at.join('.') ? [index] : []))
  if (own.length > 1) throw invalid(file, `line ${own[1]! + 1}: [${at.join('.')}] is there twice`)
  const [start] = own
  if (start === undefined) {
    const before = text.trimEnd() === '' ? [] : [...text.trimEnd().split(/\r?\n/), '']
    return [...before, ...block, ''].join(eol)
  }
  const next = lines.findIndex((line, index) => index > start && /^\s*\[/.test(line))
  let end = next === -1 ? lines.length : next
  // Comments and blank lines before the next header belong to it.
  while (end > start + 1 && /^\s*(#.*)?$/.test(lines[end - 1]!)) end -= 1
  return [...lines.slice(0, start), ...block, ...lines.slice(end)].join(eol)
}

/** The lines of one table. */
export function tomlTable(at: readonly string[], value: Readonly<Record<string, unknown>>): string[] {
  return [`[${at.join('.')}]`, ...Object.entries(value).map(([key, one]) => `${key} = ${tomlValue(one)}`)]
}

/** Strings and arrays of strings are the same in JSON and TOML. */
function tomlValue(value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return JSON.stringify(value)
  const pairs = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)} = ${tomlValue(one)}`)
  return `{ ${pairs.join(', ')} }`
}

/** Other ways to write the same table, and lines in multi-line strings that look like one. */
function refuseUnusual(lines: readonly string[], at: readonly string[], file: string): void {
  const [first, last] = [at[0]!, at.at(-1)!]
  for (const [index, line] of lines.entries()) {
    const where = `line ${index + 1}`
    if (/"""|'''/.test(line)) throw invalid(file, `${where}: a multi-line string`)
    const header = headerOf(line)
    if (header?.startsWith(`${at.join('.')}.`))
      throw invalid(file, `${where}: a table inside of [${at.join('.')}]`)
    if (new RegExp(`^\\s*"?${first}"?\\s*(=|\\.)`).test(line))
      throw invalid(file, `${where}: ${first} is not written as tables`)
    if (
      header === first &&
      lines.slice(index + 1).some((other) => new RegExp(`^\\s*"?${last}"?\\s*(=|\\.)`).test(other))
    )
      throw invalid(file, `${where}: ${last} is not written as a table of its own`)
  }
}

/** `[a . "b"]` as `a.b`. */
function headerOf(line: string): string | undefined {
  const found = /^\s*\[([^[\]]+)\]\s*(#.*)?$/.exec(line)
  return found?.[1]
    ?.split('.')
    .map((part) => part.trim().replace(/^(["'])(.*)\1$/, '$2'))
    .join('.')
}

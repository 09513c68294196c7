export interface Match {
  readonly path: string
  readonly line: number
  readonly text: string
}

/**
 * Searches with ripgrep, otherwise with GNU grep, otherwise with any grep. The first line of the output is the name of
 * the format. Arguments: pattern, folder, glob, -i.
 */
export const searchScript = `
if command -v rg >/dev/null 2>&1; then
  echo rg
  set -- "$1" "$2" "$3" "$4" --json --no-config --sort path
  [ -n "$3" ] && set -- "$@" --glob "$3"
  [ -n "$4" ] && set -- "$@" "$4"
  pattern=$1 folder=$2; shift 4
  exec rg "$@" -e "$pattern" -- "$folder"
fi
if grep --version 2>/dev/null | grep -q GNU; then
  echo gnu
  kind=-E; echo x | grep -qP x 2>/dev/null && kind=-P
  set -- "$1" "$2" "$3" "$4" -rnIHZ "$kind" --exclude-dir=.git
  [ -n "$3" ] && set -- "$@" "--include=$3"
  [ -n "$4" ] && set -- "$@" "$4"
  pattern=$1 folder=$2; shift 4
  exec grep "$@" -e "$pattern" -- "$folder"
fi
echo plain
exec grep -rnHE $4 -e "$1" -- "$2"
`

/** A last line that was cut off is left out. */
export function matchesOf(program: string, output: string): Match[] {
  const lines = output.split('\n').slice(0, -1)
  const read = program === 'rg' ? ripgrepMatch : program === 'gnu' ? gnuMatch : plainMatch
  return lines.flatMap((line) => read(line) ?? [])
}

function ripgrepMatch(line: string): Match | undefined {
  try {
    const { type, data } = JSON.parse(line)
    if (type !== 'match') return undefined
    return { path: textOf(data.path), line: Number(data.line_number), text: textOf(data.lines) }
  } catch {
    // The middle of a long output is missing.
    return undefined
  }
}

/** ripgrep writes what is not UTF-8 as base64. */
function textOf({ text, bytes }: { text?: string; bytes?: string }): string {
  return text ?? Buffer.from(bytes ?? '', 'base64').toString()
}

function gnuMatch(line: string): Match | undefined {
  const end = line.indexOf('\0')
  const found = end === -1 ? null : /^(\d+):(.*)$/s.exec(line.slice(end + 1))
  return found ? { path: line.slice(0, end), line: Number(found[1]), text: found[2]! } : undefined
}

function plainMatch(line: string): Match | undefined {
  const found = /^(.*?):(\d+):(.*)$/s.exec(line)
  return found ? { path: found[1]!, line: Number(found[2]), text: found[3]! } : undefined
}

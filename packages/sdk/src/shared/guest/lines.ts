/** The input of a call as variables, for a transport whose calls have no stdin; see `base.ts`. */
export function linesInEnv(input: readonly Uint8Array[] | undefined): Record<string, string> {
  if (!input || input.length === 0) return {}
  const env: Record<string, string> = { SANDKASTEN_LINES: '1' }
  let number = 1
  for (const line of input) {
    const text = Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString('base64')
    for (let at = 0; at < text.length; at += mostLetters, number += 1)
      env[`SANDKASTEN_LINE_${number}`] = text.slice(at, at + mostLetters)
    number += 1
  }
  return env
}

/** Linux limits one variable to 128 KiB. */
const mostLetters = 96 * 1024

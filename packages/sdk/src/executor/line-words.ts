import { SandboxError } from '../errors.ts'

/**
 * Splits a line into a program and its arguments, for an executor without a shell. Quotes and backslashes work as in
 * a shell. Everything that only a shell can do is rejected, so that it is not passed on as plain text.
 *
 * This decides nothing about security: the allow-list checks the first word, and no shell sees the rest.
 */
export function wordsOf(line: string): string[] {
  const words: string[] = []
  let at = 0
  while (at < line.length) {
    const space = /^[ \t]+/.exec(line.slice(at))
    if (space) at += space[0].length
    if (at >= line.length) break
    let word = ''
    while (at < line.length && !/[ \t]/.test(line[at]!)) {
      const part = partAt(line, at)
      word += part.text
      at += part.length
    }
    words.push(word)
  }
  return words
}

function partAt(line: string, at: number): { text: string; length: number } {
  const rest = line.slice(at, at + 200_000)
  const single = /^'([^']*)'/.exec(rest)
  if (single) return { text: single[1]!, length: single[0].length }
  const double = /^"((?:[^"\\$`]|\\[\s\S])*)"/.exec(rest)
  if (double) return { text: double[1]!.replace(/\\(["\\$`])/g, '$1'), length: double[0].length }
  const escaped = /^\\([^\n])/.exec(rest)
  if (escaped) return { text: escaped[1]!, length: 2 }
  const plain = /^[^\s'"\\|&;<>()$`*?[\]]+/.exec(rest)
  if (plain && !(/^[#~]/.test(rest) && (at === 0 || /[ \t]/.test(line[at - 1]!))))
    return { text: plain[0], length: plain[0].length }
  const found = rest[0] === '\n' || rest[0] === '\r' ? 'a line break' : `“${rest[0]}”`
  throw new SandboxError('forbidden', `The line contains ${found}, which needs a shell.`, {
    hint: "Run one program at a time, with plain or quoted arguments. Developers: allowedCommands: 'any' allows a shell.",
  })
}

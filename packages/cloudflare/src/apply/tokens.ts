/** The commas and comments between two values, which the syntax tree omits. */
import { createScanner } from 'jsonc-parser'

export interface Token {
  kind: 'comma' | 'line-comment' | 'block-comment'
  start: number
  end: number
}

// Values of jsonc-parser's SyntaxKind, a const enum that type stripping cannot import.
const COMMA = 5
const LINE_COMMENT = 12
const BLOCK_COMMENT = 13
const END = 17

/** Both offsets must be outside of strings and comments. */
export function tokensBetween(text: string, from: number, to: number): Token[] {
  const scanner = createScanner(text.slice(0, to), false)
  scanner.setPosition(from)
  const tokens: Token[] = []
  for (;;) {
    const kind: number = scanner.scan()
    if (kind === END) return tokens
    const name = kind === COMMA ? 'comma' : kind === LINE_COMMENT ? 'line-comment' : 'block-comment'
    if (kind !== COMMA && kind !== LINE_COMMENT && kind !== BLOCK_COMMENT) continue
    const start = scanner.getTokenOffset()
    tokens.push({ kind: name, start, end: start + scanner.getTokenLength() })
  }
}

/** The commas and comments between two values: what a syntax tree leaves out and an edit must respect. */
import { createScanner } from 'jsonc-parser'

export interface Token {
  kind: 'comma' | 'line-comment' | 'block-comment'
  start: number
  end: number
}

// The numbers of jsonc-parser's SyntaxKind, which is a const enum and cannot be imported with type stripping.
const COMMA = 5
const LINE_COMMENT = 12
const BLOCK_COMMENT = 13
const END = 17

/** Both offsets must stand outside of strings and comments, as the ends of values do. */
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

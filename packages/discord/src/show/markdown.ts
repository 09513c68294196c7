import { insideCode, printable, prose } from './escape.ts'

/** A part of a text that is split in its own way. */
export type Piece =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'code'; readonly text: string; readonly language: string }

/** Reads Markdown of an agent. The pieces are safe to show. Code that was not closed ends with the text. */
export function piecesOf(markdown: string): Piece[] {
  const pieces: Piece[] = []
  let lines: string[] = []
  let fence: { readonly mark: string; readonly language: string } | undefined
  const flush = () => {
    const text = lines.join('\n')
    lines = []
    if (fence) pieces.push({ type: 'code', text: insideCode(text), language: fence.language })
    else for (const piece of withTables(text)) pieces.push(piece)
  }
  for (const line of printable(markdown).split('\n')) {
    const found = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/.exec(line)
    if (fence && found && found[1]!.startsWith(fence.mark) && found[2] === '') {
      flush()
      fence = undefined
    } else if (!fence && found) {
      flush()
      fence = { mark: found[1]!, language: languageOf(found[2]!) }
    } else lines.push(line)
  }
  if (lines.length > 0 || fence) flush()
  return pieces.filter(({ type, text }) => type === 'code' || text.trim() !== '')
}

/** Discord shows no tables, so they become code with their columns. */
function withTables(text: string): Piece[] {
  const pieces: Piece[] = []
  let rest = text
  const table = /^[ \t]*\|.*\|[ \t]*\n[ \t]*\|[ \t:|-]+\|[ \t]*(?:\n[ \t]*\|.*\|[ \t]*)*/m
  for (let found = table.exec(rest); found; found = table.exec(rest)) {
    pieces.push({ type: 'text', text: prose(rest.slice(0, found.index)) })
    pieces.push({ type: 'code', text: insideCode(found[0]), language: '' })
    rest = rest.slice(found.index + found[0].length)
  }
  pieces.push({ type: 'text', text: prose(rest) })
  return pieces.map((piece) => ({ ...piece, text: piece.text.replace(/^\n+|\s+$/g, '') }))
}

function languageOf(word: string): string {
  return /^[a-z0-9_+#.-]{1,20}$/i.test(word) ? word.toLowerCase() : ''
}

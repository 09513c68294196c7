import type { Piece } from './markdown.ts'

/** What Discord accepts in one message. */
export const mostCharacters = 2000

/** Joins pieces to texts of at most `limit` characters. Code that is split is closed, and opened again in the next one. */
export function split(pieces: readonly Piece[], limit = mostCharacters): string[] {
  const texts: string[] = []
  let current = ''
  const add = (part: string) => {
    const joined = current === '' ? part : `${current}\n${part}`
    if (joined.length <= limit) {
      current = joined
      return
    }
    if (current !== '') texts.push(current)
    current = part
  }
  for (const piece of pieces) {
    const open = piece.type === 'code' ? `\`\`\`${piece.language}\n` : ''
    const close = piece.type === 'code' ? '\n```' : ''
    const room = limit - open.length - close.length
    let rest = piece.text
    while (rest !== '' || piece.type === 'code') {
      const left = limit - current.length - 1 - open.length - close.length
      // A piece starts in the present message if a good part of it fits.
      const space = current === '' || left >= Math.min(rest.length, 300) ? Math.min(left, room) : room
      const part = rest.length <= space ? rest : rest.slice(0, cutAt(rest, space))
      add(`${open}${part}${close}`)
      rest = rest.slice(part.length)
      if (piece.type === 'text') rest = rest.replace(/^\s+/, '')
      else rest = rest.replace(/^\n/, '')
      if (rest === '') break
    }
  }
  if (current !== '') texts.push(current)
  return texts
}

/** The best place at or before `space`: between paragraphs, lines, words, or at least characters. */
function cutAt(text: string, space: number): number {
  const least = Math.floor(space / 2)
  for (const mark of ['\n\n', '\n', ' ']) {
    const at = text.lastIndexOf(mark, space)
    if (at >= least && at > 0) return at
  }
  return /[\ud800-\udbff]/.test(text[space - 1]!) ? Math.max(1, space - 1) : space
}

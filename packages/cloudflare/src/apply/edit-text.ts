/**
 * Edits a JSON-with-comments text and leaves every other byte unchanged. The editor of the parser's package puts a
 * new element between a value and its comment, and reformats around a removal. Rules here:
 *
 *   - an addition goes to the end of its parent, after all comments, and only inserts;
 *   - it follows the style of its neighbours: one line or several, trailing comma or none;
 *   - a one-line list of objects is split into one line per object;
 *   - a removal takes the element, its comma and the line that becomes blank. Comments beside it stay.
 */
import type { Node } from 'jsonc-parser'
import { tokensBetween } from './tokens.ts'

export interface TextEdit {
  offset: number
  length: number
  content: string
}

/** `render` gets the indentation of the line on which the new element begins. */
export function insertInto(
  text: string,
  parent: Node,
  render: (indent: string, isBlock: boolean | undefined) => string,
  layout: { eol: string; unit: string; spread: boolean },
): TextEdit[] {
  const close = parent.offset + parent.length - 1
  const children = parent.children ?? []
  const last = children.at(-1)
  const tail = tokensBetween(text, last ? last.offset + last.length : parent.offset + 1, close)
  const comma = tail.find(({ kind }) => kind === 'comma')
  const end = tail.at(-1)?.end ?? (last ? last.offset + last.length : parent.offset + 1)
  const afterLineComment = tail.at(-1)?.kind === 'line-comment'
  const before = last && !comma ? [{ offset: last.offset + last.length, length: 0, content: ',' }] : []
  const after = comma ? ',' : ''
  const outer = indentAt(text, parent.offset)

  if (!last && tail.length === 0) {
    const inner = outer + layout.unit
    const content = layout.spread
      ? `${layout.eol}${inner}${render(inner, undefined)}${layout.eol}${outer}`
      : render(outer, undefined)
    return [{ offset: parent.offset + 1, length: close - parent.offset - 1, content }]
  }
  const isSpread = last
    ? startsItsLine(text, children[0]!.offset) || afterLineComment
    : text.slice(parent.offset, close).includes('\n')
  if (!isSpread) {
    const indent = indentAt(text, last?.offset ?? parent.offset)
    const item = render(indent, last && isMultiline(text, last))
    return [...before, { offset: end, length: 0, content: ` ${item}${after}` }]
  }
  const indent =
    last && startsItsLine(text, children[0]!.offset)
      ? indentAt(text, children[0]!.offset)
      : outer + layout.unit
  const item = render(indent, last && isMultiline(text, last))
  return [...before, { offset: end, length: 0, content: `${layout.eol}${indent}${item}${after}` }]
}

/**
 * Puts each child of a one-line container on its own line. Makes no edits if it already has several lines, no
 * children, or comments: a comment's owner is unknown.
 */
export function spreadChildren(
  text: string,
  container: Node,
  { eol, unit }: { eol: string; unit: string },
): TextEdit[] {
  const children = container.children ?? []
  const close = container.offset + container.length - 1
  if (children.length === 0 || text.slice(container.offset, close).includes('\n')) return []
  const outer = indentAt(text, container.offset)
  const edits: TextEdit[] = []
  let from = container.offset + 1
  for (const place of [...children, undefined]) {
    const tokens = tokensBetween(text, from, place?.offset ?? close)
    if (tokens.some(({ kind }) => kind !== 'comma')) return []
    const start = tokens.at(-1)?.end ?? from
    const end = place?.offset ?? close
    edits.push({ offset: start, length: end - start, content: `${eol}${outer}${place ? unit : ''}` })
    if (place) from = place.offset + place.length
  }
  return edits
}

export function removeFrom(text: string, node: Node): TextEdit[] {
  const parent = node.parent!
  const siblings = parent.children ?? []
  const index = siblings.indexOf(node)
  const start = node.offset
  const end = node.offset + node.length
  const next = siblings[index + 1]
  const following = tokensBetween(text, end, next?.offset ?? parent.offset + parent.length - 1)
  const comma = following.find(({ kind }) => kind === 'comma')
  const edits: TextEdit[] = []
  if (comma && comma.start === end) edits.push(wholeLines(text, start, comma.end))
  else {
    edits.push(wholeLines(text, start, end))
    if (comma) edits.push({ offset: comma.start, length: 1, content: '' })
  }
  const previous = siblings[index - 1]
  if (!comma && previous) {
    const between = tokensBetween(text, previous.offset + previous.length, start)
    const orphan = between.find(({ kind }) => kind === 'comma')
    if (orphan) edits.push({ offset: orphan.start, length: 1, content: '' })
  }
  return edits
}

/** Applies edits that do not overlap. Offsets refer to the original text. */
export function applyTextEdits(text: string, edits: TextEdit[]): string {
  let result = text
  // From the end; at equal offsets the later edit first, so that the result follows the order of the list.
  for (const { offset, length, content } of edits.toReversed().sort((a, b) => b.offset - a.offset)) {
    result = result.slice(0, offset) + content + result.slice(offset + length)
  }
  return result
}

export function isMultiline(text: string, node: Node): boolean | undefined {
  return node.type === 'object'
    ? text.slice(node.offset, node.offset + node.length).includes('\n')
    : undefined
}

function indentAt(text: string, offset: number): string {
  const line = text.lastIndexOf('\n', offset - 1) + 1
  return /^[ \t]*/.exec(text.slice(line, offset))![0]
}

function startsItsLine(text: string, offset: number): boolean {
  const line = text.lastIndexOf('\n', offset - 1) + 1
  return line > 0 && text.slice(line, offset).trim() === ''
}

/** Extends the range to whole lines if nothing else is on them, otherwise by the blanks before it. */
function wholeLines(text: string, start: number, end: number): TextEdit {
  const line = text.lastIndexOf('\n', start - 1) + 1
  const rest = /^[ \t]*(\r?\n)/.exec(text.slice(end))
  if (text.slice(line, start).trim() === '' && rest) {
    return { offset: line, length: end + rest[0].length - line, content: '' }
  }
  const blanks = /^[ \t]+/.exec(text.slice(end))?.[0].length ?? 0
  const isFirstOnLine = text.slice(line, start).trim() === '' || /[[{]\s*$/.test(text.slice(line, start))
  if (isFirstOnLine) return { offset: start, length: end + (rest ? 0 : blanks) - start, content: '' }
  const before = /[ \t]+$/.exec(text.slice(line, start))?.[0].length ?? 0
  return { offset: start - before, length: end - start + before, content: '' }
}

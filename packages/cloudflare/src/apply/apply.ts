/**
 * The third stage: applies edits to a text. Each edit re-parses the result of the previous one: slower than
 * collecting offsets, but correct by construction, and configs are small.
 */
import type { Node } from 'jsonc-parser'
import type { Edit, Json, Path } from '../plan/edits.ts'
import { type Document, nodeAt, parseDocument } from './document.ts'
import { applyTextEdits, insertInto, removeFrom, spreadChildren } from './edit-text.ts'
import { detectStyle, renderBlock, renderInline, type Style } from './render.ts'
import { tokensBetween } from './tokens.ts'

export function applyEdits(raw: string, edits: Edit[], file: string): string {
  let document = parseDocument(raw, file)
  if (edits.length === 0) return raw
  const style = detectStyle(document.text)
  if (!document.root) document = parseDocument(withRoot(document, style), file)
  for (const edit of edits) {
    const text = applyEdit(document, edit, style)
    if (text !== document.text) document = parseDocument(document.bom + text, file)
  }
  return document.bom + document.text
}

function applyEdit(document: Document, edit: Edit, style: Style): string {
  const { text } = document
  const node = nodeAt(document, edit.path)
  switch (edit.op) {
    case 'set': {
      if (!node) return addProperty(document, edit.path, () => renderInline(edit.value), style, false)
      return applyTextEdits(text, [
        { offset: node.offset, length: node.length, content: renderInline(edit.value) },
      ])
    }
    case 'append':
      return node ? appendTo(text, node, edit.values, edit.layout, style) : createArray(document, edit, style)
    case 'remove':
      return node ? applyTextEdits(text, removeFrom(text, memberOf(node))) : text
    case 'prune': {
      if (!node || (node.children ?? []).length > 0) return text
      if (tokensBetween(text, node.offset + 1, node.offset + node.length - 1).length > 0) return text
      return applyTextEdits(text, removeFrom(text, memberOf(node)))
    }
  }
}

function appendTo(
  text: string,
  array: Node,
  values: Json[],
  layout: 'block' | 'inline',
  style: Style,
): string {
  const spread = !style.flat && (layout === 'block' || values.length > 1 || isMigrations(array))
  let current = style.flat ? text : spreadAround(text, array, style)
  let node = current === text ? array : refind(current, array)
  for (const value of values) {
    const render = (indent: string, isBlock: boolean | undefined) =>
      (isBlock ?? (layout === 'block' && !style.flat))
        ? renderBlock(value, indent, style)
        : renderInline(value)
    current = applyTextEdits(current, insertInto(current, node, render, { ...style, spread }))
    node = refind(current, node)
  }
  return current
}

/** Puts each object of a one-line list on its own line, and everything around it on that line, outermost first. */
function spreadAround(text: string, array: Node, style: Style): string {
  if (array.children?.at(-1)?.type !== 'object') return text
  const containers: Node[] = []
  for (let node: Node | undefined = array; node; node = node.parent)
    if (node.type === 'array' || node.type === 'object') containers.unshift(node)
  let current = text
  for (const container of containers) {
    const node = current === text ? container : refind(current, container)
    current = applyTextEdits(current, spreadChildren(current, node, style))
  }
  return current
}

/** `"bindings": [{ … }]` for one short element, several lines for longer ones. */
function createArray(document: Document, edit: Edit & { op: 'append' }, style: Style): string {
  const depth = firstMissing(document, edit.path)
  const missing = edit.path.slice(depth)
  if (style.flat) {
    const value = missing.slice(1).reduceRight<Json>((inner, key) => ({ [key]: inner }), edit.values)
    return addProperty(document, edit.path.slice(0, depth + 1), () => renderInline(value), style, false)
  }
  const spread = edit.layout === 'block' || edit.values.length > 1 || edit.path.at(-1) === 'migrations'
  const render = (outer: string) => {
    let text = ''
    let indent = outer
    for (const key of missing.slice(1)) {
      indent += style.unit
      text += `{${style.eol}${indent}${JSON.stringify(key)}: `
    }
    const inner = indent + style.unit
    const items = edit.values.map((value) =>
      edit.layout === 'block' ? renderBlock(value, inner, style) : renderInline(value),
    )
    text += spread
      ? `[${style.eol}${inner}${items.join(`,${style.eol}${inner}`)}${style.eol}${indent}]`
      : `[${items.join(', ')}]`
    for (let level = missing.length - 1; level > 0; level--) {
      indent = indent.slice(0, indent.length - style.unit.length)
      text += `${style.eol}${indent}}`
    }
    return text
  }
  return addProperty(document, edit.path.slice(0, depth + 1), render, style, true)
}

function addProperty(
  document: Document,
  path: Path,
  render: (indent: string) => string,
  style: Style,
  spread: boolean,
): string {
  const parent = nodeAt(document, path.slice(0, -1))
  if (parent?.type !== 'object')
    throw new Error(`unreachable: ${path.slice(0, -1).join('.')} is not an object`)
  const key = JSON.stringify(path.at(-1))
  const edits = insertInto(document.text, parent, (indent) => `${key}: ${render(indent)}`, {
    ...style,
    spread,
  })
  return applyTextEdits(document.text, edits)
}

function firstMissing(document: Document, path: Path): number {
  let depth = 0
  while (depth < path.length && nodeAt(document, path.slice(0, depth + 1))) depth++
  return depth
}

function memberOf(node: Node): Node {
  return node.parent?.type === 'property' ? node.parent : node
}

function isMigrations(array: Node): boolean {
  return array.parent?.type === 'property' && array.parent.children?.[0]?.value === 'migrations'
}

function refind(text: string, node: Node): Node {
  const document = parseDocument(text, '')
  const path: Path = []
  for (let current = node; current.parent; current = current.parent) {
    if (current.parent.type === 'array') path.unshift(current.parent.children!.indexOf(current))
    else if (current.parent.type === 'property') path.unshift(current.parent.children![0]!.value)
  }
  return nodeAt(document, path)!
}

/** The file has only blanks and comments: append the object. */
function withRoot(document: Document, style: Style): string {
  const { text, bom } = document
  if (text.trim() === '') return `${bom}{}${style.eol}`
  return `${bom}${text.trimEnd()}${style.eol}{}${style.eol}`
}

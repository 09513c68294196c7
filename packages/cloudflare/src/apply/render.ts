/** Renders JSON in the style of the file: its indentation and line endings, on one line if it fits. */
import { isObject, type Json } from '../plan/edits.ts'

export interface Style {
  eol: string
  unit: string
  /** The whole document is on one line and stays so. */
  flat: boolean
}

/** The style of most lines; tabs and LF by default. */
export function detectStyle(text: string): Style {
  const crlf = (text.match(/\r\n/g) ?? []).length
  const lf = (text.match(/\n/g) ?? []).length - crlf
  const indent = /\n([ \t]+)["{[]/.exec(text)?.[1] ?? '\t'
  const flat = text.includes(':') && !text.trim().includes('\n')
  return { eol: crlf > lf ? '\r\n' : '\n', unit: indent.startsWith('\t') ? '\t' : indent, flat }
}

/** On one line: `{ "tag": "v1", "new_sqlite_classes": ["ShellSandbox"] }`. */
export function renderInline(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(renderInline).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.entries(value).map(
    ([key, inner]) => `${JSON.stringify(key)}: ${renderInline(inner)}`,
  )
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`
}

/** An object with one line per member; `indent` is that of the line on which it begins. */
export function renderBlock(value: Json, indent: string, { eol, unit }: Style): string {
  if (!isObject(value)) return renderInline(value)
  const members = Object.entries(value).map(
    ([key, inner]) => `${indent}${unit}${JSON.stringify(key)}: ${renderInline(inner)}`,
  )
  return `{${eol}${members.join(`,${eol}`)}${eol}${indent}}`
}

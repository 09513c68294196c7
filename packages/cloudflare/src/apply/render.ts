/** JSON as a person would have typed it into this file: its indentation, its line ends, one line where that fits. */
import { isObject, type Json } from '../plan/edits.ts'

export interface Style {
  eol: string
  /** One level. */
  unit: string
  /** The whole document stands on one line, and shall go on doing so. */
  flat: boolean
}

/** What most lines do; tabs and LF where there is nothing to learn from. */
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

/** An object with a line for each of its members; `indent` is that of the line on which it begins. */
export function renderBlock(value: Json, indent: string, { eol, unit }: Style): string {
  if (!isObject(value)) return renderInline(value)
  const members = Object.entries(value).map(
    ([key, inner]) => `${indent}${unit}${JSON.stringify(key)}: ${renderInline(inner)}`,
  )
  return `{${eol}${members.join(`,${eol}`)}${eol}${indent}}`
}

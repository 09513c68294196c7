/**
 * `wrangler.toml` is read, but never written: no TOML editor keeps comments and order. The edits are printed as
 * instructions instead.
 */
import { parse, TomlError } from 'smol-toml'
import { type Edit, isObject, type Json, type JsonObject, type Path } from '../plan/edits.ts'
import { CloudflareSyncError } from '../problem.ts'

export function parseToml(text: string, file: string): JsonObject {
  try {
    // Dates are the only TOML values without a JSON form; they become text.
    return JSON.parse(JSON.stringify(parse(text)))
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const place = { file, line: error.line, column: error.column }
    const message = `not valid TOML: ${error.message.split('\n')[0]}`
    const fix = 'correct it manually; nothing was written'
    throw new CloudflareSyncError([{ severity: 'error', code: 'broken-config', message, place, fix }])
  }
}

/** Instructions for manual edits, with text to paste. Empty without edits. */
export function tomlInstructions(edits: Edit[], config: JsonObject): string {
  return edits
    .filter(({ op }) => op !== 'prune')
    .map((edit) => `# ${edit.why}\n${instruction(edit, config)}`)
    .join('\n')
}

function instruction(edit: Edit, config: JsonObject): string {
  switch (edit.op) {
    case 'append':
      return edit.values.map((value) => `[[${header(edit.path)}]]\n${assignments(value)}\n`).join('\n')
    case 'set': {
      const assignment = assignments({ [String(edit.path.at(-1))]: edit.value })
      return `# in ${entryName(edit.path.slice(0, -1), config)}:\n${assignment}`
    }
    default: {
      const isEntry = typeof edit.path.at(-1) === 'number'
      const what = isEntry
        ? entryName(edit.path, config)
        : `${edit.path.at(-1)} of ${entryName(edit.path.slice(0, -1), config)}`
      return `# take away ${what}\n`
    }
  }
}

/** Renders everything below the entry inline, because a table header would start at the file's root. */
function assignments(value: Json): string {
  const members = isObject(value) ? Object.entries(value) : []
  return members.map(([key, inner]) => `${header([key])} = ${inline(inner)}\n`).join('')
}

function inline(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value)
  return `{ ${Object.entries(value)
    .map(([key, inner]) => `${header([key])} = ${inline(inner)}`)
    .join(', ')} }`
}

function entryName(path: Path, config: JsonObject): string {
  let value: Json | undefined = config
  for (const part of path) value = (value as { [key: string]: Json } | undefined)?.[part]
  const names = isObject(value) ? [value.name, value.class_name].filter(Boolean).join(', ') : ''
  return `the [[${header(path.filter((part) => typeof part === 'string'))}]] of ${names}`
}

function header(path: Path): string {
  return path.map((part) => (/^[\w-]+$/.test(String(part)) ? part : JSON.stringify(part))).join('.')
}

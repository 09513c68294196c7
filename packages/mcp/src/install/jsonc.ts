import { SandboxError } from '@sandkasten/sdk'
import { applyEdits, modify, type ParseError, parse, parseTree, printParseErrorCode } from 'jsonc-parser'

/** Sets one value in JSON with comments. Comments, order and indentation of the rest stay. */
export function withJsonValue(
  text: string,
  at: readonly string[],
  value: unknown,
  { file }: { file: string },
): string {
  if (text.trim() === '') return `${JSON.stringify(nested(at, value), null, 2)}\n`
  const bom = text.startsWith('\ufeff') ? '\ufeff' : ''
  const content = text.slice(bom.length)
  const errors: ParseError[] = []
  const root = parse(content, errors, { allowTrailingComma: true })
  const [error] = errors
  if (error) throw invalid(file, `line ${lineOf(content, error.offset)}: ${printParseErrorCode(error.error)}`)
  for (let depth = 0; depth < at.length; depth += 1) {
    const parent = at.slice(0, depth).reduce((node, key) => node?.[key], root)
    if (parent === undefined) break
    if (typeof parent !== 'object' || parent === null || Array.isArray(parent))
      throw invalid(file, depth === 0 ? 'it is not an object' : `“${at[depth - 1]}” is not an object`)
  }
  refuseDuplicates(content, at, file)
  const edits = modify(content, [...at], value, { formattingOptions: formatOf(content) })
  return bom + applyEdits(content, edits)
}

/** With two keys of one name, the parser and the agent may take different ones. */
function refuseDuplicates(content: string, at: readonly string[], file: string): void {
  let node = parseTree(content, [], { allowTrailingComma: true })
  for (const key of at) {
    const found = (node?.children ?? []).filter(({ children }) => children?.[0]?.value === key)
    if (found.length > 1)
      throw invalid(file, `line ${lineOf(content, found[1]!.offset)}: “${key}” is there twice`)
    node = found[0]?.children?.[1]
  }
}

function formatOf(content: string) {
  const indent = /\n([ \t]+)\S/.exec(content)?.[1] ?? '  '
  return {
    insertSpaces: !indent.startsWith('\t'),
    tabSize: indent.startsWith('\t') ? 1 : indent.length,
    eol: content.includes('\r\n') ? '\r\n' : '\n',
  }
}

function nested(at: readonly string[], value: unknown): unknown {
  return at.reduceRight((inner, key) => ({ [key]: inner }), value)
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

export function invalid(file: string, why: string): SandboxError {
  return new SandboxError('invalid_argument', `${file} cannot be changed: ${why}.`, {
    hint: 'Correct the file, or print the configuration and add it yourself: --print.',
  })
}

/** A JSON-with-comments text with its syntax tree, and lookups of values and positions. */
import {
  findNodeAtLocation,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import { isObject, type JsonObject, type Path } from '../plan/edits.ts'
import { CloudflareSyncError, type Place, placeAt } from '../problem.ts'

export interface Document {
  file: string
  /** Without the byte order mark, which is in `bom`. */
  text: string
  bom: string
  /** Undefined for a file with only blanks and comments. */
  root: Node | undefined
  value: JsonObject
}

const BOM = '\ufeff'

/** Parses like wrangler (comments and trailing commas allowed). Invalid text throws with the position. */
export function parseDocument(raw: string, file: string): Document {
  const bom = raw.startsWith(BOM) ? BOM : ''
  const text = raw.slice(bom.length)
  const errors: ParseError[] = []
  const root = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true })
  const [first] = errors
  if (first) broken(file, text, first.offset, `not valid JSON: ${sentence(printParseErrorCode(first.error))}`)
  if (!root) return { file, text, bom, root: undefined, value: {} }
  const value = getNodeValue(root)
  if (!isObject(value)) broken(file, text, root.offset, 'the config must be an object: { … }')
  refuseRepeatedKeys(root, text, file)
  return { file, text, bom, root, value }
}

export function nodeAt(document: Document, path: Path): Node | undefined {
  return document.root && findNodeAtLocation(document.root, path)
}

/** The position of a value, or of its nearest existing parent. */
export function whereIn(document: Document, path: Path): Place {
  for (let length = path.length; length >= 0; length--) {
    const node = nodeAt(document, path.slice(0, length))
    if (!node) continue
    const start = node.parent?.type === 'property' ? node.parent.offset : node.offset
    return placeAt(document.file, document.text, start)
  }
  return { file: document.file, line: 1, column: 1 }
}

function broken(file: string, text: string, offset: number, message: string): never {
  const place = placeAt(file, text, offset)
  const fix = 'correct it manually; nothing was written'
  throw new CloudflareSyncError([{ severity: 'error', code: 'broken-config', message, place, fix }])
}

/** For a duplicate key the last one counts, but an edit would find the first. */
function refuseRepeatedKeys(node: Node, text: string, file: string): void {
  const seen = new Set<string>()
  for (const child of node.children ?? []) {
    if (node.type === 'object') {
      const key = child.children?.[0]
      if (key && seen.has(key.value)) broken(file, text, key.offset, `duplicate key “${key.value}”`)
      seen.add(key?.value)
    }
    refuseRepeatedKeys(child, text, file)
  }
}

function sentence(code: string): string {
  return code
    .replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`)
    .replace(/^[A-Z]/, (a) => a.toLowerCase())
}

import { parseSync } from 'oxc-parser'

/** A passage of prose in a file: a paragraph, a table cell, a comment, or a message. */
export interface Passage {
  readonly kind: 'markdown' | 'comment' | 'string'
  readonly line: number
  /** One paragraph, on one line, without markup. Code in it is replaced by the word `CODE`. */
  readonly text: string
}

/** The prose of a file, by its extension. Other files have no prose. */
export function passagesOf(file: string, source: string): Passage[] {
  if (file.endsWith('.md')) return markdownPassages(source)
  if (file.endsWith('.ts')) return typescriptPassages(file, source)
  if (file.endsWith('.rs')) return scan(source, rustToken)
  if (file.endsWith('.py')) return scan(source, pythonToken)
  return []
}

function markdownPassages(source: string): Passage[] {
  const passages: Passage[] = []
  let paragraph: string[] = []
  let start = 0
  let fence: string | undefined
  const end = () => {
    if (paragraph.length > 0) add(passages, 'markdown', start, paragraph.join(' '))
    paragraph = []
  }
  for (const [index, line] of source.split('\n').entries()) {
    const marker = /^\s*(```+|~~~+)/.exec(line)?.[1]
    if (fence !== undefined) {
      if (marker?.startsWith(fence)) fence = undefined
    } else if (marker) {
      end()
      fence = marker
    } else if (/^\s*\|/.test(line)) {
      end()
      for (const cell of line.split(/(?<!\\)\|/)) add(passages, 'markdown', index + 1, cell)
    } else {
      if (/^\s*($|#|[-*+] |\d+\. |>|<!--)/.test(line)) end()
      if (paragraph.length === 0) start = index + 1
      paragraph.push(line.replace(/^\s*(#+|[-*+]|\d+\.|>)\s+/, '').replace(/<!--.*?-->/g, ''))
      if (/^\s*#/.test(line)) end()
    }
  }
  end()
  return passages
}

function typescriptPassages(file: string, source: string): Passage[] {
  const { program, comments } = parseSync(file, source)
  const passages: Passage[] = []
  const lineOf = lineFinder(source)
  let joined: { end: number; line: number; text: string } | undefined
  const endLineComments = () => {
    if (joined) addComment(passages, joined.line, joined.text)
    joined = undefined
  }
  for (const { type, value, start, end } of comments) {
    const follows = joined !== undefined && /^\s*$/.test(source.slice(joined.end, start))
    if (type === 'Line' && follows && lineOf(start) === lineOf(joined!.end) + 1)
      joined = { end, line: joined!.line, text: `${joined!.text}\n${value}` }
    else {
      endLineComments()
      if (type === 'Line') joined = { end, line: lineOf(start), text: value }
      else addComment(passages, lineOf(start), value)
    }
  }
  endLineComments()
  visit(program, (node) => {
    if (node.type === 'Literal' && typeof node.value === 'string')
      addString(passages, lineOf(node.start), node.value)
    if (node.type === 'TemplateLiteral')
      addString(
        passages,
        lineOf(node.start),
        node.quasis.map(({ value }: { value: { cooked?: string } }) => value.cooked ?? '').join('CODE'),
      )
  })
  return passages
}

// biome-ignore lint/suspicious/noExplicitAny: a node of any kind.
function visit(node: any, see: (node: any) => void): void {
  if (Array.isArray(node)) for (const item of node) visit(item, see)
  else if (node && typeof node.type === 'string') {
    see(node)
    for (const [key, value] of Object.entries(node)) if (key !== 'type') visit(value, see)
  }
}

type Token = (source: string, at: number) => { kind: 'comment' | 'string' | 'skip'; end: number } | undefined

/** Comments and strings of a language with a simple lexical grammar. Consecutive line comments are one passage. */
function scan(source: string, token: Token): Passage[] {
  const passages: Passage[] = []
  const lineOf = lineFinder(source)
  let joined: { end: number; line: number; text: string } | undefined
  const endLineComments = () => {
    if (joined) addComment(passages, joined.line, joined.text)
    joined = undefined
  }
  for (let at = 0; at < source.length; ) {
    const found = token(source, at)
    if (!found) {
      at += 1
      continue
    }
    const text = source.slice(at, found.end)
    if (found.kind === 'comment') {
      if (joined && /^\n?\s*$/.test(source.slice(joined.end, at)))
        joined = { ...joined, end: found.end, text: `${joined.text}\n${text}` }
      else {
        endLineComments()
        joined = { end: found.end, line: lineOf(at), text }
      }
    } else if (found.kind === 'string')
      if (/^[rbf]*"""/.test(text)) addComment(passages, lineOf(at), text.replace(/^[rbf]*"""|"""$/g, ''))
      else addString(passages, lineOf(at), text.replace(/^[a-z]*#*["']|["']#*$/g, ''))
    at = Math.max(found.end, at + 1)
  }
  endLineComments()
  return passages
}

const rustToken: Token = (source, at) =>
  match(source, at, 'comment', /\/\/[^\n]*|\/\*[\s\S]*?\*\//y) ??
  match(source, at, 'string', /b?r(#*)"[\s\S]*?"\1|b?"(?:[^"\\]|\\[\s\S])*"/y) ??
  match(source, at, 'skip', /'(?:[^'\\\n]|\\[^\n]+?)'|[A-Za-z_]\w*/y)

const pythonToken: Token = (source, at) =>
  match(source, at, 'comment', /#[^\n]*/y) ??
  match(
    source,
    at,
    'string',
    /[rbf]*"""[\s\S]*?"""|[rbf]*"(?:[^"\\\n]|\\[\s\S])*"|[rbf]*'(?:[^'\\\n]|\\[\s\S])*'/y,
  ) ??
  match(source, at, 'skip', /[A-Za-z_]\w*/y)

function match(source: string, at: number, kind: 'comment' | 'string' | 'skip', pattern: RegExp) {
  pattern.lastIndex = at
  return pattern.test(source) ? { kind, end: pattern.lastIndex } : undefined
}

function addComment(passages: Passage[], line: number, text: string): void {
  if (/^\s*(biome-ignore|@ts-|eslint|type:|noqa)/.test(text)) return
  const lines = text.split('\n').map((each) => each.replace(/^\s*(\/\/[/!]?|\/\*+|\*+\/|\*(?!\*)|#)?\s?/, ''))
  let open = false
  let paragraph: string[] = []
  const end = () => {
    add(passages, 'comment', line, paragraph.join(' '))
    paragraph = []
  }
  for (const each of lines) {
    if (/^\s*```/.test(each)) open = !open
    // Indented lines and drawings are not sentences.
    if (open || /^\s*```|^ {3,}\S|[│├└─▶►]|-->|──/.test(each)) end()
    else if (/^\s*($|[-*] |\d+\. |@\w+|:\w+)/.test(each)) {
      end()
      paragraph.push(each.replace(/^\s*([-*]|\d+\.|@\w+)\s*/, ''))
    } else paragraph.push(each)
  }
  end()
}

/** Strings of fewer than four words are names, paths and protocol, not sentences. Scripts are code. */
function addString(passages: Passage[], line: number, text: string): void {
  if (text.includes('\n')) return
  if (text.split(/\s+/).filter((word) => /^[("']*[A-Za-z]+[.,:;!?)"']*$/.test(word)).length < 4) return
  add(passages, 'string', line, text)
}

function add(passages: Passage[], kind: Passage['kind'], line: number, text: string): void {
  const plain = text
    .replace(/``.+?``|`[^`]*`/g, 'CODE')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/https?:\/\/\S+/g, 'CODE')
    .replace(/\*\*|__/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  if (/[A-Za-z]{2}/.test(plain)) passages.push({ kind, line, text: plain })
}

function lineFinder(source: string): (at: number) => number {
  const starts = [0]
  for (let at = source.indexOf('\n'); at >= 0; at = source.indexOf('\n', at + 1)) starts.push(at + 1)
  return (at) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= at) low = middle
      else high = middle
    }
    return low + 1
  }
}

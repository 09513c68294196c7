import type { Answer, Block, ChatFile } from '@sandkasten/threads'
import { insideCode, plain, printable } from './escape.ts'
import { duration, footerOf } from './footer.ts'
import { type Piece, piecesOf } from './markdown.ts'
import type { Post, Row } from './post.ts'
import { mostCharacters, split } from './split.ts'

/** More than this becomes a file, so that one answer does not fill a thread. */
const mostPosts = 8
const mostToolLines = 20
const mostPatch = 1500
/** Discord’s limit for servers without boosts. */
export const mostFileBytes = 10 * 1024 * 1024

/** The messages that show an answer. Pure: the same state gives the same messages. */
export function postsOf(answer: Answer): Post[] {
  const posts: Post[] = []
  let pieces: Piece[] = []
  const flush = () => {
    posts.push(...split(pieces).map((content) => ({ content })))
    pieces = []
  }
  for (const part of withoutLongRuns(answer.blocks)) {
    const file = typeof part === 'string' ? undefined : fileOf(part)
    if (typeof part === 'string') pieces.push({ type: 'text', text: part })
    else if (file) {
      flush()
      posts.push(filePost(file))
    } else pieces.push(...partsOf(part))
  }
  if (answer.error) pieces.push(...errorPieces(answer.error))
  flush()
  const kept = posts.length > mostPosts ? shortenedPosts(posts, answer) : posts
  return withFooter(kept, footerOf(answer), controls(answer))
}

function partsOf(block: Block): Piece[] {
  if (block.type === 'file') return []
  if (block.type === 'text') return piecesOf(block.text)
  if (block.type === 'diff') {
    const text = insideCode(block.patch.replace(/\s+$/, ''))
    return [{ type: 'code', text, language: 'diff' }]
  }
  return [{ type: 'text', text: lineOf(block) }]
}

function lineOf(block: Extract<Block, { type: 'tool' | 'step' }>): string {
  if (block.type === 'step') return `-# ${block.isDone ? '•' : '◦'} ${plain(block.text)}`
  const mark = { running: '▸', completed: '▪', error: '✕' }[block.status]
  const time =
    block.durationMs !== undefined && block.durationMs >= 1000 ? ` · ${duration(block.durationMs)}` : ''
  return `-# ${mark} ${plain(block.tool, 60)} ${plain(block.title, 160)}`.trimEnd() + time
}

/** One line for each call of a tool; of a long run of calls only the last ones. */
function withoutLongRuns(blocks: readonly Block[]): Array<Block | string> {
  const parts: Array<Block | string> = []
  let run: Block[] = []
  const flush = () => {
    const hidden = run.length > mostToolLines ? run.length - mostToolLines + 1 : 0
    if (hidden > 0) parts.push(`-# ▪ ${hidden} earlier calls of tools`)
    parts.push(...run.slice(hidden))
    run = []
  }
  for (const block of blocks) {
    if (block.type === 'tool') run.push(block)
    else {
      flush()
      parts.push(block)
    }
  }
  flush()
  return parts
}

function fileOf(block: Block): ChatFile | undefined {
  if (block.type === 'file') return block.file
  if (block.type !== 'diff' || block.patch.length <= mostPatch) return undefined
  return { name: 'changes.diff', bytes: new TextEncoder().encode(block.patch) }
}

/** A message with one file, or why the file is not there. */
export function filePost(file: ChatFile): Post {
  const name = fileName(file.name)
  if (file.bytes.length <= mostFileBytes) return { content: '', files: [{ name, bytes: file.bytes }] }
  const size = (file.bytes.length / 1024 / 1024).toFixed(1)
  return {
    content: `-# ✕ ${plain(name)} has ${size} MiB, and Discord takes 10 MiB. Get it with /pull or /url.`,
  }
}

/** A name that Discord shows as it is. */
export function fileName(name: string): string {
  const last = printable(name)
    .split(/[/\\\n]/)
    .pop()!
  return (
    last
      .replace(/[^\p{L}\p{N}._ -]/gu, '_')
      .replace(/^\.+/, '')
      .slice(-80) || 'file'
  )
}

function errorPieces({ message, hint }: NonNullable<Answer['error']>): Piece[] {
  const lines = [`-# ✕ ${plain(message, 600)}`, ...(hint ? [`-# ${plain(hint, 400)}`] : [])]
  return [{ type: 'text', text: lines.join('\n') }]
}

/** The beginning in messages. When the answer has ended, everything is in a file. */
function shortenedPosts(posts: readonly Post[], answer: Answer): Post[] {
  const texts = answer.blocks.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  const files = posts.filter((post) => post.files)
  const first = posts.filter((post) => !post.files).slice(0, mostPosts - 2)
  if (!answer.isFinal) return [...first, { content: '-# ◦ The answer goes on. All of it follows as a file.' }]
  const whole = { name: 'answer.md', bytes: new TextEncoder().encode(texts.join('\n\n')) }
  const error = answer.error ? split(errorPieces(answer.error)).map((content) => ({ content })) : []
  return [
    ...first,
    { ...filePost(whole), content: '-# • The whole answer is in this file.' },
    ...files.slice(0, 20),
    ...error,
  ]
}

function withFooter(posts: readonly Post[], footer: string, rows: readonly Row[]): Post[] {
  const last = posts.at(-1)
  const added = rows.length > 0 ? { rows } : {}
  // A message with a file is never edited, so that the file is sent once.
  if (!last || last.files || last.content.length + footer.length + 1 > mostCharacters)
    return [...posts, { content: footer, ...added }]
  return [...posts.slice(0, -1), { ...last, content: `${last.content}\n${footer}`, ...added }]
}

function controls({ isFinal, state, threadId }: Answer): Row[] {
  if (isFinal) return []
  if (state === 'preparing' || state === 'queued')
    return [[{ type: 'button', id: `cancel:${threadId}`, label: 'Cancel', style: 'secondary' }]]
  return [[{ type: 'button', id: `abort:${threadId}`, label: 'Stop', style: 'secondary' }]]
}

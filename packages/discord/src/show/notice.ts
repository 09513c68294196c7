import type { Notice } from '@sandkasten/threads'
import { filePost } from './answer.ts'
import { plain } from './escape.ts'
import type { Post } from './post.ts'
import { split } from './split.ts'

const marks = { info: '•', warning: '▲', error: '✕' } as const

/** The messages of a notice: its lines, then its files. */
export function noticePosts({ level, text, files = [] }: Notice): Post[] {
  const lines = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(0, 40)
  const content = lines
    .map((line, at) => `-# ${at === 0 ? `${marks[level]} ` : ''}${plain(line, 500)}`)
    .join('\n')
  return [
    ...split([{ type: 'text', text: content }]).map((part) => ({ content: part })),
    ...files.map((file) => filePost(file)),
  ]
}

import { SandboxError } from '@sandkasten/sdk'
import { fileName, filePost } from '../show/answer.ts'
import { codeBlock, plain } from '../show/escape.ts'
import type { Post } from '../show/post.ts'
import { mostCharacters } from '../show/split.ts'

export function said(text: string): Post {
  return { content: text }
}

/** A text as a code block, or as a file if it is long. */
export function blockOrFile(
  head: string,
  text: string,
  { language = '', name }: { language?: string; name: string },
): Post {
  const block = codeBlock(text.replace(/\s+$/, ''), language)
  const content = head === '' ? block : `${head}\n${block}`
  if (content.length <= mostCharacters - 100) return { content }
  const file = filePost({ name: fileName(name), bytes: new TextEncoder().encode(text) })
  return { ...file, content: [head, file.content].filter((part) => part !== '').join('\n') }
}

/** Hints of errors speak of the command line. These speak of Discord. */
const hints: Readonly<Record<string, string>> = {
  not_found: 'List the sandboxes with /sandbox-list.',
  conflict: 'It is in use. See /sandbox-list.',
  unauthenticated: 'Set the provider up again with /sandbox-setup.',
  forbidden: 'Set the provider up with credentials that may do this: /sandbox-setup.',
  not_running: 'Start it with /sandbox-start.',
  quota_exceeded: 'Destroy unused sandboxes with /sandbox-destroy.',
  unavailable: 'Try again in a moment.',
  timeout: 'Try again in a moment.',
  unsupported: 'Choose another provider with /sandbox provider.',
}

/** A failure in plain words. Errors of ours contain no secret; of others only the fact is shown. */
export function failure(error: unknown): Post {
  if (!SandboxError.is(error))
    return said('-# ✕ This failed for a reason that the bot did not expect. Its log says more.')
  const usual = new SandboxError(error.code, '').hints.http
  const hint = error.hints.http === usual ? hints[error.code] : error.hints.http
  return said(`-# ✕ ${plain(error.message, 800)}${hint ? `\n-# ${plain(hint, 400)}` : ''}`)
}

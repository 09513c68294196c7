import { SandboxError } from '@sandkasten/sdk'
import type { Attachment, Member } from '@sandkasten/threads'

/** A message of a channel or thread, from the gateway or read later. */
export interface Incoming {
  readonly id: string
  readonly channelId: string
  readonly guildId: string
  /** If `channelId` is a thread. */
  readonly parentId?: string
  readonly author: { readonly id: string; readonly name: string }
  /** Of a bot or a webhook. */
  readonly isProgram: boolean
  /** Written by a person: not a pin, a join or the like. */
  readonly isText: boolean
  readonly text: string
  readonly mentionsEveryone: boolean
  readonly footer?: string
  readonly files: ReadonlyArray<{ readonly name: string; readonly size: number; readonly url: string }>
  /** The author’s rights. Asked only when they are needed. */
  member(): Promise<Member | undefined>
}

/** Files of a message. They are loaded when the engine wants them. */
export function attachmentsOf({ files }: Pick<Incoming, 'files'>): Attachment[] {
  return files.map(({ name, size, url }) => ({
    name,
    sizeBytes: size,
    async load({ signal } = {}) {
      const response = await fetch(url, { signal })
      if (!response.ok || !response.body)
        throw new SandboxError('unavailable', `The attachment could not be loaded: HTTP ${response.status}.`)
      return bounded(response.body, size)
    },
  }))
}

/** Ends a download that is longer than it was said to be. */
async function* bounded(body: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let count = 0
  for await (const chunk of body) {
    count += chunk.length
    if (count > most) throw new SandboxError('too_large', 'An attachment is longer than Discord said.')
    yield chunk
  }
}

export async function textOf(file: Attachment, most: number): Promise<string> {
  if (file.sizeBytes > most) throw new SandboxError('too_large', 'The prompt’s file is too long.')
  const chunks: Uint8Array[] = []
  for await (const chunk of await file.load()) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

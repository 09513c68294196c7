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
  /** The interaction whose acknowledgement this message is, without a reply yet. Only of messages that were read later. */
  readonly pendingInteraction?: string
  readonly footer?: string
  readonly files: ReadonlyArray<{ readonly name: string; readonly size: number; readonly url: string }>
  /** The author’s rights. Asked only when they are needed. */
  member(): Promise<Member | undefined>
}

/** The download of one attachment. */
const mostLoadMs = 60_000

/** Files of a message. They are loaded when the engine wants them. */
export function attachmentsOf({ files }: Pick<Incoming, 'files'>): Attachment[] {
  return files.map(({ name, size, url }) => ({
    name,
    sizeBytes: size,
    async load({ signal } = {}) {
      const late = AbortSignal.timeout(mostLoadMs)
      return loaded(url, size, signal ? AbortSignal.any([signal, late]) : late)
    },
  }))
}

async function* loaded(url: string, size: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    const response = await fetch(url, { signal })
    if (!response.ok || !response.body)
      throw new SandboxError('unavailable', `The attachment could not be loaded: HTTP ${response.status}.`)
    yield* bounded(response.body, size)
  } catch (error) {
    if (SandboxError.is(error)) throw error
    throw new SandboxError('unavailable', 'The attachment could not be loaded from Discord.', {
      hint: 'Send the message again.',
      cause: error,
    })
  }
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

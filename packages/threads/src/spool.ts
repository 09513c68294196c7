import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { ThreadLimits } from './limits.ts'
import type { Attachment } from './spec/threads.ts'

/** A file of a message. `file` is its name in the spool and in the sandbox; it has no path. */
export interface SpooledFile {
  readonly file: string
  readonly sizeBytes: number
}

/**
 * Attachments on this machine until they are in the sandbox, so that a crash loses none. One folder for each turn.
 * Calls for different turns may interleave.
 */
export class Spool {
  readonly #folder: string
  readonly #limits: ThreadLimits

  constructor(folder: string, limits: ThreadLimits) {
    this.#folder = folder
    this.#limits = limits
  }

  /** Loads the attachments. If one fails, none stays. */
  async save(turnId: string, attachments: readonly Attachment[], call: CallOptions): Promise<SpooledFile[]> {
    if (attachments.length === 0) return []
    const { attachments: most, attachmentBytes, spoolBytes } = this.#limits
    if (attachments.length > most)
      throw new SandboxError('invalid_argument', `A message can have ${most} files.`, {
        hint: 'Send the others with another message.',
      })
    for (const { name, sizeBytes } of attachments)
      if (sizeBytes > attachmentBytes) throw tooLarge(name, attachmentBytes)
    if ((await this.#size()) > spoolBytes)
      throw new SandboxError('quota_exceeded', 'Too many files wait for their messages.', {
        hint: 'Try again later.',
      })
    const folder = this.#of(turnId)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    try {
      const saved: SpooledFile[] = []
      for (const [at, attachment] of attachments.entries()) {
        const file = safeName(attachment.name, at)
        await this.#load(path.join(folder, file), attachment, call)
        saved.push({ file, sizeBytes: (await stat(path.join(folder, file))).size })
      }
      return saved
    } catch (error) {
      await this.remove(turnId)
      throw error
    }
  }

  open(turnId: string, file: string): ReadableStream<Uint8Array> {
    return Readable.toWeb(
      createReadStream(path.join(this.#of(turnId), path.basename(file))),
    ) as ReadableStream
  }

  async remove(turnId: string): Promise<void> {
    await rm(this.#of(turnId), { recursive: true, force: true })
  }

  /** Removes what killed processes have left. Files of messages that are being stored are younger than an hour. */
  async sweep(turnIds: ReadonlySet<string>): Promise<void> {
    const kept = new Set([...turnIds].map(encodeURIComponent))
    for (const name of await this.#names()) {
      const folder = path.join(this.#folder, name)
      const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Date.now() }))
      if (!kept.has(name) && Date.now() - mtimeMs > 3_600_000)
        await rm(folder, { recursive: true, force: true })
    }
  }

  async #load(target: string, { name, load }: Attachment, { signal }: CallOptions): Promise<void> {
    const most = this.#limits.attachmentBytes
    let size = 0
    const counted = async function* (source: AsyncIterable<Uint8Array>) {
      for await (const chunk of source) {
        size += chunk.byteLength
        if (size > most) throw tooLarge(name, most)
        yield chunk
      }
    }
    await pipeline(counted(await load({ signal })), createWriteStream(target, { mode: 0o600 }), { signal })
  }

  async #size(): Promise<number> {
    let size = 0
    for (const name of await this.#names())
      for (const file of await readdir(path.join(this.#folder, name)).catch(() => []))
        size += (await stat(path.join(this.#folder, name, file)).catch(() => ({ size: 0 }))).size
    return size
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.#folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }

  #of(turnId: string): string {
    return path.join(this.#folder, encodeURIComponent(turnId))
  }
}

/** A name without a path or characters that shells and terminals read. The number keeps equal names apart. */
function safeName(name: string, at: number): string {
  const safe = name
    .normalize('NFKC')
    .replace(/[^\p{L}\p{N}._-]+/gu, '_')
    .replace(/^[._-]+/, '')
  return `${at + 1}-${[...safe].slice(-60).join('') || 'file'}`
}

function tooLarge(name: string, most: number): SandboxError {
  const shown = safeName(name, 0).slice(2)
  return new SandboxError(
    'invalid_argument',
    `The file ${shown} is larger than ${Math.floor(most / 1024 ** 2)} MiB.`,
    {
      hint: 'Send a smaller file, or let the agent download it.',
    },
  )
}

import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import type { Session } from '../../../sessions/index.ts'
import type { FrontPlace } from '../../front.ts'

const kind = 'file'
const header = 'x-metadata-'
const mostBytes = 4096

/**
 * Metadata that clients attach to files, stored with the session by path. It follows changes through this front, not
 * changes by programs in the sandbox. Copies of the sandbox start without it.
 */
export class FileMetadata {
  readonly #all: ReadonlyMap<string, Readonly<Record<string, string>>>

  private constructor(all: ReadonlyMap<string, Readonly<Record<string, string>>>) {
    this.#all = all
  }

  static async load({ records }: FrontPlace, session: Session): Promise<FileMetadata> {
    const own = await records.list<Record<string, string>>(session.project_id, kind, {
      sessionId: session.id,
    })
    return new FileMetadata(new Map(own.map(({ key, data }) => [key.slice(session.id.length + 1), data])))
  }

  of(file: string): Readonly<Record<string, string>> | undefined {
    return this.#all.get(file)
  }

  /** Files below a folder, or the file itself. */
  below(file: string): string[] {
    return [...this.#all.keys()].filter((key) => key === file || key.startsWith(`${file}/`))
  }
}

export function metadataOf({ raw }: FastifyRequest): Record<string, string> | undefined {
  const found: Record<string, string> = {}
  // Raw headers keep the case of names; `headers` has them in lower case.
  for (let at = 0; at + 1 < raw.rawHeaders.length; at += 2) {
    const name = raw.rawHeaders[at]!
    if (name.toLowerCase().startsWith(header))
      found[name.slice(header.length).toLowerCase()] = raw.rawHeaders[at + 1]!
  }
  if (JSON.stringify(found).length > mostBytes)
    throw new SandboxError('too_large', `The metadata of a file is longer than ${mostBytes} bytes.`, {
      hint: 'Send shorter X-Metadata headers.',
    })
  return Object.keys(found).length === 0 ? undefined : found
}

/** Replaces the metadata; undefined removes it. */
export async function keepMetadata(
  { records }: FrontPlace,
  session: Session,
  file: string,
  metadata: Readonly<Record<string, string>> | undefined,
): Promise<void> {
  const key = `${session.id} ${file}`
  if (metadata) await records.put(session.project_id, kind, key, metadata, session.id)
  else await records.delete(session.project_id, kind, key)
}

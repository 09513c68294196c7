import type { Core } from '../core.ts'
import { DiscordError } from '../errors.ts'
import type { AttachmentRecord } from './world.ts'

/** A file that a bot or a user uploads. */
export interface Upload {
  readonly name: string
  readonly bytes: Uint8Array
  readonly contentType?: string
  readonly description?: string
}

/** Stores a file and makes it available under a CDN path of the twin. */
export function storeFile(
  core: Core,
  channelId: string,
  upload: Upload,
  ephemeral: boolean,
): AttachmentRecord {
  if (upload.bytes.byteLength > core.limits.fileBytes) throw new DiscordError('tooLarge')
  const id = core.newId()
  const filename = upload.name.replaceAll(/[^\p{L}\p{N}._-]+/gu, '_').slice(0, 255) || 'file'
  const contentType = upload.contentType || 'application/octet-stream'
  core.world.files.set(id, { filename, contentType, bytes: upload.bytes })
  const folder = ephemeral ? 'ephemeral-attachments' : 'attachments'
  return {
    id,
    filename,
    size: upload.bytes.byteLength,
    contentType,
    url: `${core.origin}/${folder}/${channelId}/${id}/${encodeURIComponent(filename)}`,
    ...(upload.description !== undefined && { description: upload.description }),
    ...(ephemeral && { ephemeral }),
  }
}

import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { SandboxError } from '@sandkasten/sdk'
import { bodyChunks } from '../../http/request-body.ts'

export interface FormParts {
  field?(name: string, value: string): void
  /** Unread content is discarded. If the form is cut off, `content` throws, so that the handler can undo the write. */
  file(name: string, content: AsyncIterable<Uint8Array>, filename: string | undefined): Promise<void>
}

export interface FormOptions {
  /** How long the sender may pause. */
  readonly idleMs: number
  /** The most bytes of one field. */
  readonly fieldBytes: number
  readonly files: number
}

/** Reads the parts of a form in order, as streams. Throws the first failure. */
export async function eachPart(
  payload: IncomingMessage,
  parts: FormParts,
  { idleMs, ...limits }: FormOptions,
): Promise<void> {
  const parser = parserOf(payload, limits)
  const open = new Set<Readable>()
  let failed: { error: unknown } | undefined
  let taking: Promise<void> = Promise.resolve()
  const then = (take: () => Promise<void> | void) => {
    taking = taking
      .then(() => (failed ? undefined : take()))
      .catch((error: unknown) => {
        failed ??= { error }
      })
    return taking
  }
  parser.on('field', (name: string, value: string) => void then(() => parts.field?.(name, value)))
  parser.on('file', (name: string, content: Readable, filename: string | undefined) => {
    open.add(content)
    void then(() => parts.file(name, content, filename)).finally(() => {
      open.delete(content)
      content.resume()
    })
  })
  const parsed = new Promise<void>((resolve, reject) => {
    parser.on('finish', resolve)
    parser.on('error', (cause: unknown) => reject(broken('The form is malformed.', cause)))
  })
  const feeding = (async () => {
    for await (const chunk of bodyChunks(payload, idleMs))
      if (!parser.write(chunk)) await new Promise((resolve) => parser.once('drain', resolve))
    parser.end()
  })()
  try {
    await Promise.all([parsed, feeding])
    await taking
  } catch (error) {
    parser.destroy()
    for (const content of open) content.destroy(error as Error)
    await taking
    throw error
  }
  if (failed) throw failed.error
}

function parserOf({ headers }: IncomingMessage, limits: Omit<FormOptions, 'idleMs'>): BusboyInstance {
  try {
    return new Busboy({
      headers: headers as { 'content-type': string },
      // Keep the whole path of a file name, not only its last part.
      preservePath: true,
      limits: { fieldSize: limits.fieldBytes, files: limits.files, fields: limits.files },
    })
  } catch (cause) {
    throw broken('The body is not multipart/form-data with a boundary.', cause)
  }
}

function broken(message: string, cause: unknown): SandboxError {
  return new SandboxError('invalid_argument', message, { cause, hint: 'Send multipart/form-data.' })
}

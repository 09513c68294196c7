import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { SandboxError } from '@sandkasten/sdk'
import { bodyChunks } from '../../api/body.ts'

const idleMs = 60_000
const mostMetadata = 65_536

/** Files of a form, each after a part `metadata` that says what is to become of it, read while they arrive. */
export async function eachUpload(
  payload: IncomingMessage,
  take: (metadata: unknown, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  const parser = parserOf(payload)
  let metadata: { value: unknown } | undefined
  let failed: unknown
  let taking: Promise<void> = Promise.resolve()
  const open = new Set<Readable>()
  const part = async (name: string, content: AsyncIterable<Uint8Array>) => {
    if (name === 'metadata') {
      metadata = { value: jsonOf(await collected(content)) }
      return
    }
    if (name !== 'file' || !metadata) throw broken(`The part “${name}” is not where it should be`)
    const { value } = metadata
    metadata = undefined
    await take(value, content)
  }
  // Metadata may come as a file, as the SDK sends it, or as a plain field.
  parser.on('field', (name: string, value: string) => {
    if (name !== 'metadata') return
    taking = taking.then(() => {
      metadata = { value: jsonOf(value) }
    })
    taking.catch((error: unknown) => {
      failed ??= error
    })
  })
  parser.on('file', (name: string, content: Readable) => {
    open.add(content)
    taking = taking
      .then(() => (failed === undefined ? part(name, content) : undefined))
      .catch((error: unknown) => {
        failed ??= error
      })
      // What is not wanted any more is thrown away, so that the rest can be read.
      .finally(() => {
        open.delete(content)
        content.resume()
      })
  })
  const parsed = new Promise<void>((resolve, reject) => {
    parser.on('finish', resolve)
    parser.on('error', (cause: unknown) => reject(broken('The form is broken', cause)))
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
    // What was being written is given up, so that nothing of it stays.
    for (const content of open) content.destroy(error as Error)
    await taking.catch(() => {})
    throw error
  }
  if (failed !== undefined) throw failed
  if (metadata) throw broken('A part “file” is missing')
}

function parserOf({ headers }: IncomingMessage): BusboyInstance {
  try {
    return new Busboy({
      headers: headers as { 'content-type': string },
      limits: { fieldSize: mostMetadata, files: 20_000 },
    })
  } catch (cause) {
    throw broken('The body is not a form', cause)
  }
}

async function collected(content: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of content) {
    size += chunk.length
    if (size > mostMetadata) throw broken('A part “metadata” is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'The part “metadata” is not JSON.', {
      cause,
      details: { opensandboxCode: 'INVALID_FILE_METADATA' },
      hint: 'Send such as {"path": "/workspace/file", "mode": 644}.',
    })
  }
}

function broken(message: string, cause?: unknown): SandboxError {
  return new SandboxError('invalid_argument', `${message}.`, {
    cause,
    details: { opensandboxCode: 'INVALID_FILE' },
    hint: 'Send multipart/form-data: a part “metadata”, then a part “file”, for each file.',
  })
}

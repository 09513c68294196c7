import type { IncomingMessage } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import { eachPart } from '../../shared/multipart.ts'

const limits = { idleMs: 60_000, fieldBytes: 65_536, files: 20_000 }

/** Reads the files of a form as streams. A part `metadata` before each file has its path. */
export async function eachUpload(
  payload: IncomingMessage,
  take: (metadata: unknown, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  let metadata: { value: unknown } | undefined
  try {
    await eachPart(
      payload,
      {
        // Metadata may come as a file, as the SDK sends it, or as a plain field.
        field(name, value) {
          if (name === 'metadata') metadata = { value: jsonOf(value) }
        },
        async file(name, content) {
          if (name === 'metadata') {
            metadata = { value: jsonOf(await collected(content)) }
            return
          }
          if (name !== 'file' || !metadata) throw broken(`The part “${name}” is not expected here`)
          const { value } = metadata
          metadata = undefined
          await take(value, content)
        },
      },
      limits,
    )
  } catch (error) {
    if (SandboxError.is(error, 'invalid_argument') && error.details.opensandboxCode === undefined)
      throw broken(error.message.replace(/\.$/, ''), error)
    throw error
  }
  if (metadata) throw broken('A part “file” is missing')
}

async function collected(content: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of content) {
    size += chunk.length
    if (size > limits.fieldBytes) throw broken('A part “metadata” is too large')
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
      hint: 'Send JSON such as {"path": "/workspace/file", "mode": 644}.',
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

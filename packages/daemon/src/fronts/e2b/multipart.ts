import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { SandboxError } from '@sandkasten/sdk'
import { bodyChunks } from '../../api/body.ts'

/** The files of a form, one after another, each read while it arrives. */
export async function eachFile(
  payload: IncomingMessage,
  idleMs: number,
  take: (name: string | undefined, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  const parser = parserOf(payload)
  const open = new Set<Readable>()
  let failed: unknown
  let taking: Promise<void> = Promise.resolve()
  parser.on('file', (_, content, name) => {
    open.add(content)
    taking = taking
      .then(() => (failed === undefined ? take(unescaped(name), content) : undefined))
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
    parser.on('error', (cause: unknown) =>
      reject(new SandboxError('invalid_argument', 'The form is broken.', { cause })),
    )
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
    await taking
    throw error
  }
  if (failed !== undefined) throw failed
}

function parserOf({ headers }: IncomingMessage): BusboyInstance {
  try {
    return new Busboy({
      headers: headers as { 'content-type': string },
      preservePath: true,
      limits: { fieldSize: 65_536, files: 10_000 },
    })
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'The form has no boundary.', { cause })
  }
}

/** What browsers do to quotes and line breaks in a file's name. */
function unescaped(name: string | undefined): string | undefined {
  return name?.replace(/%(22|0D|0A)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

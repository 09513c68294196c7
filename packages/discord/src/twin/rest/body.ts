import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { DiscordError } from '../errors.ts'
import type { Upload } from '../state/files.ts'
import type { Body } from './form.ts'

export interface ParsedBody {
  readonly body: Body
  /** Uploaded files by their number in `files[n]`. */
  readonly files: ReadonlyMap<string, Upload>
}

/** Reads JSON or a multipart form with `payload_json` and `files[n]`. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<ParsedBody> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    // Read on after the limit, so that the client can read the answer.
    if (size <= maxBytes) chunks.push(chunk)
  }
  if (size > maxBytes) throw new DiscordError('tooLarge')
  const type = request.headers['content-type'] ?? ''
  if (size === 0) return { body: {}, files: new Map() }
  if (type.startsWith('multipart/form-data')) return readForm(chunks, type)
  return { body: parseJson(Buffer.concat(chunks).toString('utf8')), files: new Map() }
}

async function readForm(chunks: Buffer[], type: string): Promise<ParsedBody> {
  const response = new Response(Readable.toWeb(Readable.from(chunks)) as ReadableStream<Uint8Array>, {
    headers: { 'content-type': type },
  })
  const form = await response.formData().catch(() => {
    throw new DiscordError('general')
  })
  const files = new Map<string, Upload>()
  let body: Body = {}
  for (const [name, value] of form) {
    if (typeof value === 'string') {
      if (name === 'payload_json') body = parseJson(value)
      continue
    }
    const number = /^files\[(\d+)\]$/.exec(name)?.[1] ?? name
    files.set(number, {
      name: value.name,
      bytes: new Uint8Array(await value.arrayBuffer()),
      contentType: value.type,
    })
  }
  return { body, files }
}

function parseJson(text: string): Body {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new DiscordError('invalidJson')
  }
  if (Array.isArray(value)) return { list: value }
  if (typeof value !== 'object' || value === null) throw new DiscordError('invalidJson')
  return value as Body
}

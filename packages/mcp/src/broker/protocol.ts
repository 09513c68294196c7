import { SandboxError } from '@sandkasten/sdk'
import type { Incarnation } from '../sources/index.ts'
import type { ToolResult } from '../tools/index.ts'

/**
 * Between the agent’s side and the broker: one HTTP request for each call, with the token as a bearer.
 *
 *     POST /v1/tools/run_command            the input as JSON
 *     POST /v1/uploads?remotePath=…         the content of the file
 *
 * The response has one JSON object in each line: beats, progress, and in the end the result. A response without a
 * result was interrupted. Closing the connection cancels the call.
 */
export type BrokerMessage =
  | { readonly type: 'beat' }
  | { readonly type: 'progress'; readonly message: string }
  | { readonly type: 'result'; readonly result: ToolResult; readonly incarnation?: Incarnation }

/** A broker that says nothing for longer than the silence is taken for dead. */
export const beatMs = 5_000
export const silenceMs = 20_000

/** The largest input, and the longest line of a response. */
export const maxInputBytes = 32 * 1024 * 1024
export const maxLineBytes = 64 * 1024 * 1024

/** The messages of a response. */
export async function* messagesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<BrokerMessage> {
  let chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    let rest = chunk
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      const line = Buffer.concat([...chunks, rest.subarray(0, end)])
      chunks = []
      size = 0
      rest = rest.subarray(end + 1)
      if (line.byteLength > 0) yield parsed(line)
    }
    chunks.push(rest)
    size += rest.byteLength
    if (size > maxLineBytes) throw new SandboxError('too_large', 'The broker’s answer is too large.')
  }
}

function parsed(line: Buffer): BrokerMessage {
  try {
    return JSON.parse(line.toString('utf8'))
  } catch (cause) {
    throw new SandboxError('provider_error', 'The broker’s answer is not JSON.', { cause })
  }
}

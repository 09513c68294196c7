import { SandboxError } from '@sandkasten/sdk'
import { errorOf, type Problem } from '@sandkasten/sdk/client'

export interface Received {
  event: string
  data: {
    text?: string
    base64?: string
    exit_code?: number
    timed_out?: boolean
    exec_id?: string
    [more: string]: unknown
  }
}

/** Parses a stream of server-sent events. A `problem` event is thrown as the error that it describes. */
export async function* eventsOf(response: Response): AsyncGenerator<Received> {
  let text = ''
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
        const lines = text.slice(0, end).split('\n')
        text = text.slice(end + 2)
        const field = (name: string) =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
        const data = field('data')
        if (data === undefined) continue
        const received = { event: field('event') ?? '', data: JSON.parse(data) }
        if (received.event === 'problem') throw errorOf(received.data as Problem, 502)
        yield received
      }
    }
  } catch (error) {
    if (SandboxError.is(error)) throw error
    throw new SandboxError('connection_lost', 'The connection to the daemon was lost.', { cause: error })
  }
}

export function bytesOf({ data }: Received): string | Uint8Array {
  return data.text ?? Buffer.from(data.base64 ?? '', 'base64')
}

import { SandboxError } from '@sandkasten/sdk'

/** A longer event ends the stream: a server in a sandbox can send anything. */
const mostLength = 16 * 1024 * 1024

/** The JSON values of a stream of events. Values that are no objects are left out. */
export async function* serverSentEvents(response: Response): AsyncGenerator<Record<string, unknown>> {
  if (!response.body) return
  // The unfinished line is kept in pieces: joining them with each chunk would take quadratic time.
  let line: string[] = []
  let data: string[] = []
  let length = 0
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    length += chunk.length
    if (length > mostLength) throw new SandboxError('too_large', 'An event of the server is too long.')
    const [first, ...lines] = chunk.split('\n')
    line.push(first!)
    for (const begun of lines) {
      const whole = line.join('').replace(/\r$/, '')
      line = [begun]
      if (whole.startsWith('data:')) data.push(whole.slice(5))
      if (whole !== '') continue
      const value = parsed(data)
      data = []
      length = begun.length
      if (value !== undefined) yield value
    }
  }
}

function parsed(data: readonly string[]): Record<string, unknown> | undefined {
  if (data.length === 0) return undefined
  try {
    const value: unknown = JSON.parse(data.join('\n'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

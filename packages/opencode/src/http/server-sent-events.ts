/** A longer event ends the stream: a server in a sandbox can send anything. */
const mostLength = 16 * 1024 * 1024

/** The JSON values of a stream of events. Values that are no objects are left out. */
export async function* serverSentEvents(response: Response): AsyncGenerator<Record<string, unknown>> {
  if (!response.body) return
  let text = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (text.length > mostLength) throw new Error('An event of the server is too long.')
    const events = text.split(/\r?\n\r?\n/)
    text = events.pop()!
    for (const event of events) {
      const value = parsed(event)
      if (value !== undefined) yield value
    }
  }
}

function parsed(event: string): Record<string, unknown> | undefined {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'))
  if (lines.length === 0) return undefined
  try {
    const value: unknown = JSON.parse(lines.map((line) => line.slice(5)).join('\n'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

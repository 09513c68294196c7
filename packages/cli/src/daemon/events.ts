export interface Received {
  event: string
  data: {
    text?: string
    base64?: string
    exit_code?: number
    timed_out?: boolean
    detail?: string
    [more: string]: unknown
  }
}

/** A stream of events (SSE), as they come. */
export async function* eventsOf(response: Response): AsyncGenerator<Received> {
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const field = (name: string) =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const data = field('data')
      if (data !== undefined) yield { event: field('event') ?? '', data: JSON.parse(data) }
    }
  }
}

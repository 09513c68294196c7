import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/** What the model does next. */
export type Turn = { readonly tool: string; readonly input: object } | { readonly text: string }

/** What an agent has sent: the tools that it offers, and the results that it returns to the model. */
export interface ModelRequest {
  readonly tools: string[]
  readonly results: ToolResult[]
}

export interface ToolResult {
  readonly text: string
  readonly isError: boolean
  /** The content of images, as base64. */
  readonly images: string[]
}

export interface ModelServer extends AsyncDisposable {
  readonly url: string
  /** The turns of the conversation. Requests for titles, which have no tools of ours, are not among them. */
  readonly requests: ModelRequest[]
}

/**
 * A model server with the streaming interfaces of Anthropic and OpenAI. The answer to the nth request that offers our
 * tools is `turns[n]`.
 */
export async function modelServer(turns: readonly Turn[]): Promise<ModelServer> {
  const requests: ModelRequest[] = []
  const next = (request: ModelRequest): Turn => {
    if (!request.tools.some((name) => name.endsWith('sandbox_run_command') || name.endsWith('__run_command')))
      return { text: 'A title' }
    requests.push(request)
    return turns[requests.length - 1] ?? { text: 'done' }
  }
  const server = createServer(async (request, response) => {
    const body = await bodyOf(request)
    if (request.url?.endsWith('/chat/completions')) sendOpenAi(response, next(openAiRequest(body)))
    else if (/^\/v1\/messages(\?|$)/.test(request.url ?? ''))
      sendAnthropic(response, next(anthropicRequest(body)))
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Block {
  readonly type: string
  readonly text?: string
  readonly is_error?: boolean
  readonly content?: string | readonly Block[]
  readonly source?: { readonly data: string }
}

interface Body {
  readonly tools?: ReadonlyArray<{ readonly name?: string; readonly function?: { readonly name: string } }>
  readonly messages?: ReadonlyArray<{ readonly role: string; readonly content: string | readonly Block[] }>
}

function anthropicRequest({ tools = [], messages = [] }: Body): ModelRequest {
  const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content))
  const results = blocks.filter(({ type }) => type === 'tool_result')
  return {
    tools: tools.map(({ name }) => name ?? ''),
    results: results.map(({ content = '', is_error = false }) => {
      const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
      return {
        text: parts.map(({ text = '' }) => text).join('\n'),
        isError: is_error,
        images: parts.flatMap((part) => ('source' in part && part.source ? [part.source.data] : [])),
      }
    }),
  }
}

function openAiRequest({ tools = [], messages = [] }: Body): ModelRequest {
  const results = messages.filter(({ role }) => role === 'tool')
  return {
    tools: tools.map((tool) => tool.function?.name ?? ''),
    results: results.map(({ content }) => ({
      text: typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('\n'),
      isError: false,
      images: [],
    })),
  }
}

function sendAnthropic(response: ServerResponse, turn: Turn): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const event = (data: { type: string; [field: string]: unknown }) =>
    response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`)
  const usage = { input_tokens: 10, output_tokens: 1 }
  const empty = { content: [], stop_reason: null, usage }
  event({
    type: 'message_start',
    message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', ...empty },
  })
  const isTool = 'tool' in turn
  const block = isTool
    ? { type: 'tool_use', id: id(), name: turn.tool, input: {} }
    : { type: 'text', text: '' }
  const delta = isTool
    ? { type: 'input_json_delta', partial_json: JSON.stringify(turn.input) }
    : { type: 'text_delta', text: turn.text }
  event({ type: 'content_block_start', index: 0, content_block: block })
  event({ type: 'content_block_delta', index: 0, delta })
  event({ type: 'content_block_stop', index: 0 })
  event({ type: 'message_delta', delta: { stop_reason: isTool ? 'tool_use' : 'end_turn' }, usage })
  event({ type: 'message_stop' })
  response.end()
}

function sendOpenAi(response: ServerResponse, turn: Turn): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const chunk = (delta: object, finish_reason: string | null = null) =>
    response.write(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
    )
  if ('tool' in turn) {
    const call = { name: turn.tool, arguments: JSON.stringify(turn.input) }
    chunk({ role: 'assistant', tool_calls: [{ index: 0, id: id(), type: 'function', function: call }] })
    chunk({}, 'tool_calls')
  } else {
    chunk({ role: 'assistant', content: turn.text })
    chunk({}, 'stop')
  }
  response.end('data: [DONE]\n\n')
}

function id(): string {
  return `toolu_${Math.random().toString(36).slice(2)}`
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString() || '{}')
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ModelReply } from './model-server.ts'

export interface AnthropicRequest {
  /** How many tools have answered since the last words of the user. */
  readonly answered: number
  readonly lastResult: string
  readonly tools: readonly string[]
  readonly key: string | undefined
}

export interface AnthropicServer extends AsyncDisposable {
  readonly port: number
  /** Without a path, as `ANTHROPIC_BASE_URL` has it. */
  readonly url: string
  readonly requests: AnthropicRequest[]
  script: (request: AnthropicRequest) => ModelReply
}

/** A server of Anthropic’s messages API whose answers are scripted. */
export async function startAnthropicServer(
  script: (request: AnthropicRequest) => ModelReply,
): Promise<AnthropicServer> {
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await bodyOf(incoming)
    answerMessages(incoming, sent, response, (request) => {
      model.requests.push(request)
      return model.script(request)
    })
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const model: AnthropicServer = {
    port,
    url: `http://127.0.0.1:${port}`,
    requests: [],
    script,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
  return model
}

/** Answers one request of the messages API. Those without tools ask for a title. */
export function answerMessages(
  incoming: IncomingMessage,
  sent: Buffer,
  response: ServerResponse,
  script: (request: AnthropicRequest) => ModelReply,
): void {
  const { pathname } = new URL(incoming.url ?? '/', 'http://model')
  if (pathname !== '/v1/messages') return void response.writeHead(404).end('{}')
  const body = parsed(sent)
  const request = requestOf(body, incoming)
  const reply = request.tools.length === 0 ? { text: '{"title": "A title"}' } : script(request)
  if (body.stream === true) return stream(response, reply)
  const content = 'text' in reply ? [{ type: 'text', text: reply.text }] : []
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ ...head, content, stop_reason: 'end_turn' }))
}

interface Block {
  type?: string
  content?: unknown
}
interface Body {
  stream?: boolean
  messages?: Array<{ role: string; content: string | Block[] }>
  tools?: Array<{ name?: string }>
}

const usage = { input_tokens: 10, output_tokens: 5 }
const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted', usage }

function requestOf({ messages = [], tools = [] }: Body, incoming: IncomingMessage): AnthropicRequest {
  const blocks = messages.map(({ content }) =>
    Array.isArray(content) ? content : [{ type: 'text', content }],
  )
  const isResult = ({ type }: Block) => type === 'tool_result'
  const last = messages.findLastIndex(({ role }, at) => role === 'user' && !blocks[at]!.some(isResult))
  const results = blocks.slice(last + 1).flatMap((list) => list.filter(isResult))
  const bearer = incoming.headers.authorization?.replace(/^Bearer /, '')
  return {
    answered: results.length,
    lastResult: JSON.stringify(results.at(-1)?.content ?? ''),
    tools: tools.flatMap(({ name }) => name ?? []),
    key: (incoming.headers['x-api-key'] as string | undefined) ?? bearer,
  }
}

function stream(response: ServerResponse, reply: ModelReply): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (type: string, data: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
  send('message_start', { message: { ...head, content: [], stop_reason: null } })
  if ('hang' in reply) return
  const isText = 'text' in reply
  const id = `toolu_${Math.random().toString(36).slice(2)}`
  const block = isText ? { type: 'text', text: '' } : { type: 'tool_use', id, name: reply.tool, input: {} }
  send('content_block_start', { index: 0, content_block: block })
  const delta = isText
    ? { type: 'text_delta', text: reply.text }
    : { type: 'input_json_delta', partial_json: JSON.stringify(reply.args) }
  send('content_block_delta', { index: 0, delta })
  send('content_block_stop', { index: 0 })
  send('message_delta', { delta: { stop_reason: isText ? 'end_turn' : 'tool_use' }, usage })
  send('message_stop', {})
  response.end()
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function parsed(sent: Buffer): Body {
  try {
    return JSON.parse(sent.toString('utf8')) as Body
  } catch {
    return {}
  }
}

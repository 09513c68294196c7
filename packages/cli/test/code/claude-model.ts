import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ClaudeModel extends AsyncDisposable {
  readonly url: string
  /** The conversations that it was asked to continue. */
  readonly requests: string[]
  /** The keys that it got. */
  readonly keys: Set<unknown>
}

type Block = { type: 'text'; text: string } | { type: 'tool_use'; name: string; input: object }

/** An Anthropic-compatible server: it calls one tool for each prompt, then says `done`. */
export async function startClaudeModel(tool: { name: string; input: object }): Promise<ClaudeModel> {
  const requests: string[] = []
  const keys = new Set<unknown>()
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    if (request.method !== 'POST' || !request.url?.startsWith('/v1/messages'))
      return void response.writeHead(404).end('{}')
    if (request.url.includes('count_tokens')) return void response.end('{"input_tokens":1}')
    const body = JSON.parse(text) as {
      messages: Array<{ role: string; content: unknown }>
      tools?: unknown[]
    }
    keys.add(request.headers['x-api-key'])
    const last = JSON.stringify(body.messages.at(-1))
    const canCall = (body.tools ?? []).length > 0
    if (canCall) requests.push(JSON.stringify(body.messages))
    const wantsTool = canCall && !last.includes('tool_result')
    const block: Block = wantsTool ? { type: 'tool_use', ...tool } : { type: 'text', text: 'done' }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [event, data] of eventsOf(block))
      response.write(`event: ${event}\ndata: ${JSON.stringify({ type: event, ...data })}\n\n`)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    keys,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function eventsOf(block: Block): Array<[string, object]> {
  const isTool = block.type === 'tool_use'
  const id = Math.random().toString(36).slice(2)
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    usage,
  }
  const begun = isTool ? { ...block, id: `toolu_${id}`, input: {} } : { ...block, text: '' }
  const delta = isTool
    ? { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    : { type: 'text_delta', text: block.text }
  return [
    ['message_start', { message }],
    ['content_block_start', { index: 0, content_block: begun }],
    ['content_block_delta', { index: 0, delta }],
    ['content_block_stop', { index: 0 }],
    ['message_delta', { delta: { stop_reason: isTool ? 'tool_use' : 'end_turn' }, usage }],
    ['message_stop', {}],
  ]
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/** What the agent asks the model. */
export interface ModelRequest {
  /** The last message of the user. */
  readonly prompt: string
  /** How many tools have answered since then. */
  readonly answered: number
  /** What the last of them said. */
  readonly lastResult: string
  /** Names of the tools that the model may call. */
  readonly tools: readonly string[]
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content?: unknown }>
  readonly authorization: string | undefined
}

/** `hang`: the answer begins and never ends. */
export type ModelReply = { text: string } | { tool: string; args: Record<string, unknown> } | { hang: true }

export interface ModelServer extends AsyncDisposable {
  readonly port: number
  /** With `/v1`, as a configuration has it. */
  readonly url: string
  readonly requests: ModelRequest[]
  /** What models are called by: replaces the script. */
  script: (request: ModelRequest) => ModelReply
  /** Resolves at the next request that is no request for a title. */
  next(): Promise<ModelRequest>
  close(): Promise<void>
}

/** An OpenAI-compatible server whose answers are scripted. It also answers the request for a session's title. */
export async function startModelServer(
  script: (request: ModelRequest) => ModelReply = ({ prompt }) => ({ text: `You said: ${prompt}` }),
  host = '127.0.0.1',
  tls?: { cert: Buffer; key: Buffer; port: number },
): Promise<ModelServer> {
  const waiting: Array<(request: ModelRequest) => void> = []
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    void answer(request, response).catch(() => response.destroy())
  }
  const server = tls ? createTlsServer(tls, listener) : createServer(listener)
  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await jsonOf(incoming)
    if (incoming.method !== 'POST' || !incoming.url?.endsWith('/chat/completions')) {
      response.writeHead(404).end('{}')
      return
    }
    const request = requestOf(body, incoming.headers.authorization)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (request.tools.length === 0) return send(response, { text: 'A title' })
    model.requests.push(request)
    for (const tell of waiting.splice(0)) tell(request)
    return send(response, model.script(request))
  }
  server.listen(tls?.port ?? 0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const model: ModelServer = {
    port,
    url: `${tls ? 'https' : 'http'}://${host}:${port}/v1`,
    requests: [],
    script,
    next: () => new Promise((resolve) => waiting.push(resolve)),
    async close() {
      server.closeAllConnections()
      server.close()
    },
    [Symbol.asyncDispose]: () => model.close(),
  }
  return model
}

/** The configuration of opencode for such a server. `key`: what the sandbox has as the key. */
export function modelConfig(url: string, key = 'sk-local') {
  return {
    model: 'local/m1',
    small_model: 'local/m1',
    enabled_providers: ['local'],
    provider: {
      local: {
        npm: '@ai-sdk/openai-compatible',
        name: 'Local',
        options: { baseURL: url, apiKey: key },
        models: { m1: { name: 'M1', tool_call: true, limit: { context: 128_000, output: 8192 } } },
      },
    },
  }
}

/** A script that does these steps for each prompt, then says `done`. */
export function steps(...replies: ModelReply[]): (request: ModelRequest) => ModelReply {
  return ({ answered }) => replies[answered] ?? { text: 'done' }
}

interface Message {
  role: string
  content?: unknown
}

interface Body {
  messages?: Message[]
  tools?: Array<{ function?: { name?: string } }>
}

function requestOf({ messages = [], tools = [] }: Body, authorization: string | undefined): ModelRequest {
  const user = messages.findLastIndex(({ role }) => role === 'user')
  const results = messages.slice(user + 1).filter(({ role }) => role === 'tool')
  return {
    prompt: textOf(messages[user]?.content),
    answered: results.length,
    lastResult: textOf(results.at(-1)?.content),
    tools: tools.flatMap((tool) => tool.function?.name ?? []),
    messages,
    authorization,
  }
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join('')
}

function send(response: ServerResponse, reply: ModelReply): void {
  const chunk = (delta: object, finish: string | null = null) =>
    response.write(
      `data: ${JSON.stringify({
        id: 'chat',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'm1',
        choices: [{ index: 0, delta, finish_reason: finish }],
      })}\n\n`,
    )
  chunk({ role: 'assistant', content: '' })
  if ('hang' in reply) return
  if ('text' in reply) {
    for (const word of reply.text.match(/\S+\s*/g) ?? []) chunk({ content: word })
    chunk({}, 'stop')
  } else {
    const call = { name: reply.tool, arguments: JSON.stringify(reply.args) }
    const id = `call_${Math.random().toString(36).slice(2)}`
    chunk({ tool_calls: [{ index: 0, id, type: 'function', function: call }] })
    chunk({}, 'tool_calls')
  }
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
  response.write(
    `data: ${JSON.stringify({ id: 'chat', object: 'chat.completion.chunk', created: 1, model: 'm1', choices: [], usage })}\n\n`,
  )
  response.end('data: [DONE]\n\n')
}

async function jsonOf(incoming: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Body
  } catch {
    return {}
  }
}

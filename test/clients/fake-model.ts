import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A deterministic model: it writes a script, reads it, runs it, and repeats its output. Implements the part of OpenAI's and
 * Anthropic's APIs that an agent loop needs, without streams: `/v1/responses`, `/v1/chat/completions` and
 * `/v1/messages`. Fails if a required tool is missing, or if a tool's result is not returned.
 */
export interface FakeModel {
  readonly url: string
  readonly turns: number
  stop(): Promise<void>
}

const script = 'a=0 b=1\nfor i in 1 2 3 4 5 6 7 8; do printf "%s " $a; c=$((a + b)) a=$b b=$c; done\n'
/** What the model asks for, in this order. */
export interface ScriptedCall {
  readonly name: string
  readonly args: object
  /** Its result must contain this. */
  readonly returns?: string
}

/** For agents without `read_file`. */
export const writeAndRun: readonly ScriptedCall[] = [
  { name: 'write_file', args: { path: 'fib.sh', content: script } },
  { name: 'exec', args: { cmd: 'sh fib.sh', timeoutMs: 20_000, timeout_ms: 20_000 } },
]

const writeReadAndRun: readonly ScriptedCall[] = [
  writeAndRun[0]!,
  { name: 'read_file', args: { path: 'fib.sh' }, returns: 'for i in 1 2 3 4 5 6 7 8' },
  writeAndRun[1]!,
]

export async function startFakeModel(calls = writeReadAndRun): Promise<FakeModel> {
  let turns = 0
  const server = createServer(async (request, response) => {
    turns += 1
    const body = JSON.parse(await textOf(request))
    const answer = request.url?.endsWith('/responses')
      ? respond(body, calls)
      : request.url?.endsWith('/messages')
        ? converse(body, calls)
        : complete(body, calls)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    get turns() {
      return turns
    },
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Item {
  type?: string
  role?: string
  output?: unknown
  content?: unknown
}

function respond(
  body: { model: string; input: Item[] | string; tools: Array<{ name: string }> },
  calls: readonly ScriptedCall[],
) {
  const items = typeof body.input === 'string' ? [] : body.input
  const outputs = items
    .filter(({ type }) => type === 'function_call_output')
    .map(({ output }) => text(output))
  const next = step(calls, outputs, body.tools)
  const id = `turn_${outputs.length}`
  const output =
    typeof next === 'string'
      ? {
          type: 'message',
          id: `msg_${id}`,
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: next, annotations: [] }],
        }
      : {
          type: 'function_call',
          id: `fc_${id}`,
          call_id: `call_${id}`,
          name: next.name,
          arguments: JSON.stringify(next.args),
          status: 'completed',
        }
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: 0,
    status: 'completed',
    model: body.model,
    output: [output],
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    parallel_tool_calls: false,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    usage: {
      input_tokens: 1,
      output_tokens: 1,
      total_tokens: 2,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  }
}

function complete(
  body: { model: string; messages: Item[]; tools: Array<{ function: { name: string } }> },
  calls: readonly ScriptedCall[],
) {
  const outputs = body.messages.filter(({ role }) => role === 'tool').map(({ content }) => text(content))
  const next = step(
    calls,
    outputs,
    body.tools.map((tool) => tool.function),
  )
  const called = typeof next !== 'string'
  const message = called
    ? {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: `call_${outputs.length}`,
            type: 'function',
            function: { name: next.name, arguments: JSON.stringify(next.args) },
          },
        ],
      }
    : { role: 'assistant', content: next }
  return {
    id: `turn_${outputs.length}`,
    object: 'chat.completion',
    created: 0,
    model: body.model,
    choices: [{ index: 0, message, finish_reason: called ? 'tool_calls' : 'stop', logprobs: null }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }
}

function converse(
  body: { model: string; messages: Item[]; tools: Array<{ name: string }> },
  calls: readonly ScriptedCall[],
) {
  const outputs = body.messages
    .flatMap(({ content }) => (Array.isArray(content) ? (content as Item[]) : []))
    .filter(({ type }) => type === 'tool_result')
    .map(({ content }) => text(content))
  const next = step(calls, outputs, body.tools)
  const called = typeof next !== 'string'
  return {
    id: `msg_${outputs.length}`,
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [
      called
        ? { type: 'tool_use', id: `toolu_${outputs.length}`, name: next.name, input: next.args }
        : { type: 'text', text: next },
    ],
    stop_reason: called ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }
}

/** The next tool call; after the last one, its output. */
function step(
  calls: readonly ScriptedCall[],
  outputs: readonly string[],
  tools: ReadonlyArray<{ name: string }>,
) {
  const { name, returns = '' } = calls[outputs.length - 1] ?? {}
  if (!outputs.at(-1)?.includes(returns) && returns !== '')
    throw new Error(`The result of ${name} lacks “${returns}”: ${outputs.at(-1)}`)
  const call = calls[outputs.length]
  if (!call) return `It printed: ${outputs.at(-1)?.split('---').at(-1)?.trim()}`
  if (!tools.some(({ name }) => name === call.name)) throw new Error(`There is no tool ${call.name}.`)
  return call
}

function text(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value))
    return value.map((part) => String((part as { text?: string }).text ?? '')).join('')
  return JSON.stringify(value)
}

async function textOf(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) body += chunk
  return body
}

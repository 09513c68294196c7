import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { Awake, Workspace } from './workspace.ts'

const beatMs = 10_000
const beat = `data: ${JSON.stringify({ payload: { type: 'server.heartbeat', properties: {} } })}\n\n`

/**
 * The event stream of a workspace, which opencode opens again whenever it ends. While the sandbox does not run, the stream
 * stays open and says nothing: without it, opencode refuses all requests for the workspace, also the one that starts it.
 */
export async function streamEvents(outgoing: ServerResponse, workspace: Workspace): Promise<void> {
  const left = new AbortController()
  outgoing.once('close', () => left.abort())
  await workspace.moved()
  if (await workspace.isRunning()) return follow(outgoing, workspace, await workspace.wake(), left.signal)
  outgoing.writeHead(200, { 'content-type': 'text/event-stream' })
  outgoing.write(beat)
  const beating = setInterval(() => outgoing.write(beat), beatMs)
  try {
    await workspace.awake(AbortSignal.any([left.signal, workspace.setup.signal]))
  } finally {
    clearInterval(beating)
    outgoing.end()
  }
}

async function follow(
  outgoing: ServerResponse,
  workspace: Workspace,
  awake: Awake,
  left: AbortSignal,
): Promise<void> {
  const { url, headers } = awake.server
  const over = new AbortController()
  const signal = AbortSignal.any([left, over.signal])
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/$/, '')}/global/event`
  const { get } = address.protocol === 'https:' ? https : http
  const request = get(address, { headers: { ...headers, accept: 'text/event-stream' }, agent: false, signal })
  let unlisten = () => {}
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve).once('error', reject)
    })
    outgoing.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' })
    unlisten = workspace.listen()
    void workspace.over(signal).then(() => over.abort())
    for await (const message of messagesOf(answer)) {
      if (!message.includes('"server.heartbeat"')) workspace.touch()
      const forHome = workspace.sessions.streamed(message)
      if (forHome !== undefined && !outgoing.write(awake.paths.messageToHome(forHome)))
        await new Promise((resolve) => outgoing.once('drain', resolve).once('close', resolve))
    }
  } catch (error) {
    if (!outgoing.headersSent) throw error
  } finally {
    unlisten()
    request.destroy()
    outgoing.end()
    if (!left.aborted && !over.signal.aborted) await workspace.forget(awake)
  }
}

const mostMessage = 32 * 1024 ** 2

/** Messages of an event stream, with the empty line that ends each. */
async function* messagesOf(answer: IncomingMessage): AsyncGenerator<string> {
  let rest = ''
  for await (const text of answer.setEncoding('utf8')) {
    const parts = `${rest}${text}`.split('\n\n')
    rest = parts.pop()!
    if (rest.length > mostMessage) throw new Error('An event is too long.')
    for (const part of parts) yield `${part}\n\n`
  }
}

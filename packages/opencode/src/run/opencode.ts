import { SandboxError } from '@sandkasten/sdk'
import { limitedText } from '../http/limited-text.ts'
import { longFetch } from '../http/long-fetch.ts'
import { serverSentEvents } from '../http/server-sent-events.ts'
import { addressOf } from '../session/call.ts'
import { modelOf } from '../session/model.ts'
import type { AgentEvent, RunContext } from './events.ts'

const mostBytes = 64 * 1024 * 1024
const abortMs = 5000

/** One prompt through the API of opencode’s server. An aborted signal also ends the work in the sandbox. */
export async function* promptServer(context: RunContext): AsyncGenerator<AgentEvent, void> {
  const sessionId = context.sessionId ?? String((await call(context, 'session', {})).id)
  yield { type: 'session', sessionId }
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const events = await longFetch(addressOf(context, { path: 'event' }), {
    headers: { ...context.headers },
    signal,
  })
  const prompt = {
    parts: [{ type: 'text', text: context.prompt }],
    ...(context.model === undefined ? {} : { model: modelOf(context.model) }),
  }
  const reading = serverSentEvents(events)
  try {
    // The first event says that later ones are not missed.
    await reading.next()
    const answer = call(context, `session/${encodeURIComponent(sessionId)}/message`, prompt)
    yield* until(answer, reading, sessionId)
    yield resultOf(await answer)
  } finally {
    stop.abort()
    reading.return(undefined).catch(() => {})
    if (context.signal.aborted) await abort(context, sessionId)
  }
}

/** Events of the session, until the answer is complete. The end of the events alone is no failure. */
async function* until(
  answer: Promise<unknown>,
  reading: AsyncGenerator<Record<string, unknown>>,
  sessionId: string,
): AsyncGenerator<AgentEvent> {
  const answered = answer.then(
    () => undefined,
    () => undefined,
  )
  const seen = new Set<string>()
  for (;;) {
    const next = reading.next().catch(() => ({ done: true as const, value: undefined }))
    const event = await Promise.race([next, answered])
    if (event === undefined || event.done) return void (await answered)
    yield* eventsOf(event.value, sessionId, seen)
  }
}

interface Properties {
  sessionID?: unknown
  partID?: unknown
  delta?: unknown
  field?: unknown
  part?: {
    id?: unknown
    type?: unknown
    sessionID?: unknown
    tool?: unknown
    state?: { status?: unknown }
  }
}

/** `seen`: ids of text parts, which reasoning does not have, and the states of tools that were reported. */
function* eventsOf(
  event: Record<string, unknown>,
  sessionId: string,
  seen: Set<string>,
): Generator<AgentEvent> {
  const { part, ...properties } = (event.properties ?? {}) as Properties
  if (event.type === 'message.part.updated' && part?.sessionID === sessionId) {
    if (part.type === 'text') seen.add(String(part.id))
    const status = part.state?.status
    const isKnown = status === 'running' || status === 'completed' || status === 'error'
    const state = `${String(part.id)} ${String(status)}`
    if (part.type === 'tool' && isKnown && !seen.has(state)) {
      seen.add(state)
      yield { type: 'tool', tool: String(part.tool), status }
    }
  }
  const { sessionID, partID, field, delta } = properties
  const isText = event.type === 'message.part.delta' && field === 'text' && seen.has(String(partID))
  if (isText && sessionID === sessionId) yield { type: 'text', text: String(delta) }
}

function resultOf(message: Record<string, unknown>): AgentEvent {
  const { parts, info } = message as {
    parts?: Array<{ type?: unknown; text?: unknown }>
    info?: { error?: { name?: unknown; data?: { message?: unknown } } }
  }
  const texts = (parts ?? []).flatMap(({ type, text }) => (type === 'text' ? [String(text)] : []))
  const error = info?.error
  return {
    type: 'result',
    text: texts.join('\n'),
    ...(error ? { error: String(error.data?.message ?? error.name) } : {}),
  }
}

async function call(
  context: RunContext,
  path: string,
  body: object,
  signal = context.signal,
): Promise<Record<string, unknown>> {
  const response = await longFetch(addressOf(context, { path }), {
    method: 'POST',
    headers: { ...context.headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  })
  const text = await limitedText(response, mostBytes)
  if (!response.ok)
    throw new SandboxError('provider_error', `opencode answered ${response.status}: ${text.slice(0, 500)}`, {
      details: { status: response.status },
    })
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  throw new SandboxError('provider_error', 'opencode’s answer is no JSON object, so the prompt failed.')
}

/** Best effort: the server may be gone, which ended the prompt, too. */
async function abort(context: RunContext, sessionId: string): Promise<void> {
  const url = addressOf(context, { path: `session/${encodeURIComponent(sessionId)}/abort` })
  const signal = AbortSignal.timeout(abortMs)
  const response = await longFetch(url, { method: 'POST', headers: { ...context.headers }, signal }).catch(
    () => undefined,
  )
  await response?.body?.cancel()
}

import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import { closeWith } from '../../http/websockets.ts'
import type { Caller } from '../../keys/index.ts'
import type { SessionEvent } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { callerOf } from './entry.ts'
import { recordOf, type SandboxView, sandboxView, states } from './views.ts'

/**
 * Notifies Daytona's clients of changes, with the part of Socket.IO 4 over WebSocket that they use. A library would
 * bring eight packages with long polling, rooms and acknowledgements.
 *
 *     server ──► 0{"sid":…}                 the connection is open
 *     client ──► 40{"token":…}              log in                   server ──► 40{"sid":…}   or   44{"message":…}
 *     server ──► 2                          ping                     client ──► 3
 *     server ──► 42["sandbox.state.updated",{…}]   42["sandbox.created",{…}]
 */
const pingMs = 25_000
const pongMs = 20_000
const loginMs = 15_000
/** A client with more unread data is disconnected. Messages are limited too, because each costs more than its bytes. */
const mostWaitingBytes = 4 * 1024 * 1024
const mostWaiting = 10_000

/** The most connections that have not logged in yet. */
const mostStrangers = 100

const login = z.object({ token: z.string().min(1) })

type Send = (text: string) => void

/** The connected clients that listen for changes of sandboxes. */
export class EventSockets {
  readonly #place: FrontPlace
  readonly #listeners = new Map<Send, Caller>()
  #strangers = 0

  constructor(place: FrontPlace) {
    this.#place = place
  }

  /** Accepts one more connection, or throws. */
  next(): { serve(socket: WebSocket, leaving: AbortSignal): Promise<void> } {
    if (this.#strangers < mostStrangers) return { serve: (socket, leaving) => this.#serve(socket, leaving) }
    throw new SandboxError('rate_limited', 'Too many connections have not logged in.', {
      details: { retryAfterMs: 1000 },
    })
  }

  /** Tells clients of a new sandbox. Call it after the record is written, because clients keep the whole view. */
  created(view: SandboxView): SandboxView {
    for (const [send, caller] of this.#listeners)
      if (caller.projectId === view.organizationId) send(`42${JSON.stringify(['sandbox.created', view])}`)
    return view
  }

  async #serve(socket: WebSocket, leaving: AbortSignal): Promise<void> {
    let waiting = 0
    const sent = () => {
      waiting -= 1
    }
    const send = (text: string) => {
      if (socket.readyState !== socket.OPEN) return
      waiting += 1
      socket.send(text, sent)
      if (waiting > mostWaiting || socket.bufferedAmount > mostWaitingBytes) socket.terminate()
    }
    keepAlive(socket, send)
    const caller = await this.#login(socket, send, leaving)
    if (!caller) return
    const { signal, leave } = this.#place.services.keys.watch.enter(caller)
    closeWith(socket, signal)
    this.#listeners.set(send, caller)
    try {
      const { events } = this.#place.services
      const after = await events.last()
      send(`40${JSON.stringify({ sid: randomUUID() })}`)
      await tell(this.#place, caller, send, { after, signal: AbortSignal.any([leaving, signal]) })
    } finally {
      this.#listeners.delete(send)
      leave()
    }
  }

  /** The caller of the first login message. Undefined when the client left, was too slow, or has no valid key. */
  async #login(socket: WebSocket, send: Send, leaving: AbortSignal): Promise<Caller | undefined> {
    const first = new Promise<string | undefined>((resolve) => {
      leaving.addEventListener('abort', () => resolve(undefined), { once: true })
      socket.on('message', (data) => String(data).startsWith('40') && resolve(String(data).slice(2)))
    })
    const late = setTimeout(() => socket.close(4408, 'no login'), loginMs)
    this.#strangers += 1
    try {
      send(`0${JSON.stringify({ sid: randomUUID(), ...greeting })}`)
      const text = await first
      return text === undefined ? undefined : await letIn(this.#place, text)
    } catch {
      send(`44${JSON.stringify({ message: 'Unauthorized' })}`)
      socket.close(1008)
      return undefined
    } finally {
      this.#strangers -= 1
      clearTimeout(late)
    }
  }
}

const greeting = { upgrades: [], pingInterval: pingMs, pingTimeout: pongMs, maxPayload: 1_000_000 }

function keepAlive(socket: WebSocket, send: Send): void {
  let answered = true
  const timer = setInterval(() => {
    if (!answered) return socket.terminate()
    answered = false
    send('2')
  }, pingMs)
  socket.once('close', () => clearInterval(timer))
  socket.on('message', (data) => {
    const text = String(data)
    if (text === '3') answered = true
    else if (text === '2') send('3')
    else if (text === '41' || text === '1') socket.close(1000)
  })
}

async function letIn(place: FrontPlace, text: string): Promise<Caller> {
  const { token } = login.parse(JSON.parse(text === '' ? '{}' : text))
  return callerOf(place, `Bearer ${token}`, randomUUID(), 'read')
}

/** Sends every new change of state in the caller's project. */
async function tell(
  place: FrontPlace,
  caller: Caller,
  send: Send,
  options: { after: number; signal: AbortSignal },
): Promise<void> {
  const before = new Map<string, string>()
  for await (const event of place.services.events.follow(caller.projectId, options)) {
    if (!event.type.startsWith('session.') || event.sessionId === undefined) continue
    const message = await messageOf(place, caller, event, before)
    if (message) send(`42${JSON.stringify(message)}`)
  }
}

async function messageOf(
  place: FrontPlace,
  caller: Caller,
  event: SessionEvent,
  before: Map<string, string>,
): Promise<[string, object] | undefined> {
  const id = event.sessionId!
  const session = await place.services.sessions.get(caller, id).catch(() => undefined)
  const newState = states[event.type.slice('session.'.length) as keyof typeof states]
  if (!session || newState === undefined) return undefined
  const oldState = before.get(id) ?? 'unknown'
  if (session.live === 0) before.delete(id)
  else before.set(id, newState)
  const view = sandboxView(place, session, await recordOf(place, session))
  // The state of the event. The sandbox may already have a newer one.
  return ['sandbox.state.updated', { sandbox: { ...view, state: newState }, oldState, newState }]
}

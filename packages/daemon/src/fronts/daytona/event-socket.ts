import { randomUUID } from 'node:crypto'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import type { Caller } from '../../keys/index.ts'
import type { SessionEvent } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { callerOf } from './call.ts'
import { recordOf, sandboxView, states } from './sandboxes.ts'

/**
 * The socket on which the vendor's client is told of changes: Socket.IO 4 over WebSocket, as far as such a client speaks it.
 * By hand, because it is this much: a library of it would bring eight packages, and long polling, rooms and acknowledgements with them.
 *
 *     server ──► 0{"sid":…}                 the connection is open
 *     client ──► 40{"token":…}              let me in                server ──► 40{"sid":…}   or   44{"message":…}
 *     server ──► 2                          are you there?           client ──► 3
 *     server ──► 42["sandbox.state.updated",{…}]
 */
const pingMs = 25_000
const pongMs = 20_000
const loginMs = 15_000
const mostWaiting = 4 * 1024 * 1024

const login = z.object({ token: z.string().min(1) })

export function serveEvents(place: FrontPlace, socket: WebSocket, leaving: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const send = (text: string) => {
    if (socket.readyState !== socket.OPEN) return
    socket.send(text)
    // One who does not listen is not kept.
    if (socket.bufferedAmount > mostWaiting) socket.terminate()
  }
  let answered = true
  let known = false
  const timers = [
    setTimeout(() => !known && socket.close(4408, 'no login'), loginMs),
    setInterval(() => {
      if (!answered) return socket.terminate()
      answered = false
      send('2')
    }, pingMs),
  ]
  socket.once('close', () => {
    for (const timer of timers) clearTimeout(timer)
    resolve()
  })
  socket.on('message', (data) => {
    const text = String(data)
    if (text === '3') answered = true
    else if (text === '2') send('3')
    else if (text.startsWith('40') && !known) {
      known = true
      void letIn(place, text.slice(2)).then(
        (caller) => {
          send(`40${JSON.stringify({ sid: randomUUID() })}`)
          void tell(place, caller, send, leaving).catch(() => socket.close(1011))
        },
        () => {
          send(`44${JSON.stringify({ message: 'Unauthorized' })}`)
          socket.close(1008)
        },
      )
    } else if (text === '41' || text === '1') socket.close(1000)
  })
  const hello = {
    sid: randomUUID(),
    upgrades: [],
    pingInterval: pingMs,
    pingTimeout: pongMs,
    maxPayload: 1_000_000,
  }
  send(`0${JSON.stringify(hello)}`)
  return promise
}

async function letIn(place: FrontPlace, text: string): Promise<Caller> {
  const { token } = login.parse(JSON.parse(text === '' ? '{}' : text))
  return callerOf(place, `Bearer ${token}`, randomUUID(), 'read')
}

/** Every change of state in the caller's project, from now on. */
async function tell(
  place: FrontPlace,
  caller: Caller,
  send: (text: string) => unknown,
  signal: AbortSignal,
): Promise<void> {
  const { events } = place.services
  const before = new Map<string, string>()
  for await (const event of events.follow(caller.projectId, { after: await events.last(), signal })) {
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
  // The state that the event tells of; the sandbox may be further on already.
  return ['sandbox.state.updated', { sandbox: { ...view, state: newState }, oldState, newState }]
}

import type { WebSocket } from 'ws'
import type { Core } from '../core.ts'
import type { BotRecord } from '../state/world.ts'

export interface SessionEvent {
  readonly sequence: number
  readonly name: string
  readonly data: object
}

/** One session of a bot. It outlives its connection, so that the bot can resume it. */
export interface Session {
  readonly id: string
  readonly bot: BotRecord
  readonly intents: number
  sequence: number
  /** The latest events, for a resume. */
  readonly events: SessionEvent[]
  socket?: WebSocket
  lostAt?: number
}

/** Whether the connection was lost so long ago that the session cannot be resumed. */
export function isOver(core: Core, { lostAt }: Session): boolean {
  return lostAt !== undefined && core.clock.now() - lostAt > core.limits.resumeMs
}

/** Numbers an event, keeps it, and sends it if the session is connected. */
export function dispatch(session: Session, name: string, data: object, keep: number): void {
  const event = { sequence: ++session.sequence, name, data }
  session.events.push(event)
  if (session.events.length > keep) session.events.splice(0, session.events.length - keep)
  session.socket?.send(encode(event))
}

/** Sends what a session has missed after `sequence`. Returns false when that is no longer known. */
export function replay(session: Session, sequence: number): boolean {
  const first = session.events[0]?.sequence ?? session.sequence + 1
  if (sequence > session.sequence || sequence + 1 < first) return false
  for (const event of session.events) {
    if (event.sequence > sequence) session.socket?.send(encode(event))
  }
  return true
}

function encode({ sequence, name, data }: SessionEvent): string {
  return JSON.stringify({ op: 0, t: name, s: sequence, d: data })
}

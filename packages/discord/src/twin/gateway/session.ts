import type { WebSocket } from 'ws'
import type { BotRecord } from '../state/world.ts'

/** One session of a bot. It outlives its connection, so that the bot can resume it. */
export interface Session {
  readonly id: string
  readonly bot: BotRecord
  readonly intents: number
  sequence: number
  /** The latest events, for a resume. */
  readonly events: { readonly sequence: number; readonly text: string }[]
  socket?: WebSocket
  lostAt?: number
}

/** Numbers an event, keeps it, and sends it if the session is connected. */
export function dispatch(session: Session, name: string, data: object, keep: number): void {
  const sequence = ++session.sequence
  const text = JSON.stringify({ op: 0, t: name, s: sequence, d: data })
  session.events.push({ sequence, text })
  if (session.events.length > keep) session.events.splice(0, session.events.length - keep)
  session.socket?.send(text)
}

/** Sends what a session has missed after `sequence`. Returns false when that is no longer known. */
export function replay(session: Session, sequence: number): boolean {
  const first = session.events[0]?.sequence ?? session.sequence + 1
  if (sequence > session.sequence || sequence + 1 < first) return false
  for (const event of session.events) {
    if (event.sequence > sequence) session.socket?.send(event.text)
  }
  return true
}

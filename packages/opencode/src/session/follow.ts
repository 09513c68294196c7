import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { longFetch } from '../http/long-fetch.ts'
import { serverSentEvents } from '../http/server-sent-events.ts'
import { addressOf, reasonOf, refused, type SessionServer, unreachable } from './call.ts'
import { limits } from './limits.ts'
import type { Fields } from './read.ts'
import { type SessionBase, type SessionState, SessionView } from './view.ts'

export interface FollowOptions {
  readonly signal?: AbortSignal
  /** The server sends an event every 10 seconds. After this time without one, it is asked again. Default 25,000. */
  readonly silentMs?: number
  /** How long the server may be out of reach before `follow` throws `unavailable`. Default 20,000. */
  readonly lostMs?: number
}

export interface Followed {
  readonly server: SessionServer
  readonly sessionId: string
  /** The id of a message. The states have it and those after it. */
  readonly from: string
  readBase(signal: AbortSignal): Promise<SessionBase>
}

const eventMs = 10_000
const pausesMs = [100, 250, 500, 1000, 2000]

/**
 * States of a session, the present one first. A reader that is slow gets the latest one, and none between. The history is
 * read again after each reconnect, so nothing is lost. Ends only by its reader, its signal, or an error.
 */
export async function* followSession(
  followed: Followed,
  { signal: outer, silentMs = 25_000, lostMs = 20_000 }: FollowOptions = {},
): AsyncGenerator<SessionState, void> {
  const stop = new AbortController()
  const signal = outer ? AbortSignal.any([outer, stop.signal]) : stop.signal
  const view = new SessionView(followed.sessionId, followed.from)
  let wake = () => {}
  let isChanged = false
  let end: { error: unknown } | undefined
  const changed = () => {
    isChanged = true
    wake()
  }
  const run = reconnecting({ ...followed, view, changed, signal, silentMs }, lostMs).catch((error) => {
    end = { error }
    wake()
  })
  try {
    for (;;) {
      if (!isChanged && !end) await new Promise<void>((resolve) => (wake = resolve))
      if (outer?.aborted) throw new SandboxError('aborted', 'Following the session was cancelled.')
      if (end) throw end.error
      isChanged = false
      yield view.state
    }
  } finally {
    stop.abort()
    await run
  }
}

interface Connection extends Followed {
  readonly view: SessionView
  readonly changed: () => void
  readonly signal: AbortSignal
  readonly silentMs: number
}

async function reconnecting(connection: Connection, lostMs: number): Promise<never> {
  const { signal } = connection
  let reachedAt = Date.now()
  for (let attempt = 0; ; attempt += 1) {
    let failure: unknown
    try {
      await connect(connection, () => {
        reachedAt = Date.now()
        attempt = 0
      })
    } catch (error) {
      failure = error
    }
    signal.throwIfAborted()
    if (SandboxError.is(failure) && !SandboxError.is(failure, 'unavailable')) throw failure
    if (Date.now() - reachedAt >= lostMs)
      throw SandboxError.is(failure) ? failure : unreachable(reasonOf(failure ?? 'the events end'), failure)
    await sleep(pausesMs[Math.min(attempt, pausesMs.length - 1)], undefined, { signal })
  }
}

/** One connection. Returns or throws when it ends; `reached` is called for each event. */
async function connect(connection: Connection, reached: () => void): Promise<void> {
  const { server, view, changed, readBase, silentMs } = connection
  const ended = new AbortController()
  const silence = setTimeout(() => ended.abort(unreachable('has sent nothing for too long')), silentMs)
  const connecting = setTimeout(() => ended.abort(unreachable('does not send events')), eventMs)
  const signal = AbortSignal.any([connection.signal, ended.signal])
  let waiting: Fields[] | undefined = []
  const request = { path: 'event' }
  try {
    const response = await longFetch(addressOf(server, request), { headers: { ...server.headers }, signal })
    if (!response.ok) {
      await response.body?.cancel()
      throw refused(request, response.status, response.statusText)
    }
    for await (const event of serverSentEvents(response)) {
      silence.refresh()
      reached()
      if (event.type === 'server.connected' && waiting && waiting.length === 0) {
        clearTimeout(connecting)
        // Events go on arriving meanwhile, and come after the base.
        void readBase(signal).then(
          (base) => {
            view.reset(base)
            for (const one of waiting ?? []) view.apply(one)
            waiting = undefined
            changed()
          },
          (error: unknown) => ended.abort(error),
        )
      }
      if (waiting) {
        if (waiting.length >= limits.waitingEvents) throw unreachable('sends too many events')
        waiting.push(event)
      } else if (view.apply(event)) changed()
    }
  } catch (error) {
    throw ended.signal.aborted ? ended.signal.reason : error
  } finally {
    clearTimeout(silence)
    clearTimeout(connecting)
    ended.abort()
  }
}

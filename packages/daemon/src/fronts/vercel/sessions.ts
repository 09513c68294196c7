import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { lifetimeEnd, type Session } from '../../sessions/index.ts'
import { notSupported, parsed } from '../shared/request.ts'
import type { Entry, VercelCall, VercelRoute } from './entry.ts'
import { changeNetwork, networkPolicy } from './network.ts'
import { routesOf, sandboxView, sessionView, sidOf } from './views.ts'

const base = '/v2/sandboxes/sessions/:sid'

/** Runs of sandboxes: their timeout and their end. */
export function sessionRoutes(entry: Entry): VercelRoute[] {
  const { sessions } = entry.services

  return [
    {
      method: 'GET',
      path: '/v2/sandboxes/sessions',
      scope: 'read',
      async handle({ caller, query }) {
        const { name } = query
        if (typeof name !== 'string')
          throw notSupported('Listing the sessions of all sandboxes', 'Set a name.')
        // No details of earlier runs are kept, so only the last run is listed.
        const session = await entry.byName(caller, name)
        return { sessions: [sessionView(entry, session)], pagination: { count: 1, next: null } }
      },
    },
    {
      method: 'GET',
      path: base,
      scope: 'read',
      async handle({ caller, params }) {
        const { session, incarnation } = await entry.bySession(caller, params.sid!)
        return {
          session: sessionView(entry, session, incarnation),
          routes: await routesOf(entry, session),
        }
      },
    },
    {
      method: 'POST',
      path: `${base}/stop`,
      scope: 'exec',
      async handle(call) {
        const { session, incarnation } = await entry.bySession(call.caller, call.params.sid!)
        const kept = await entry.kept(session)
        if (incarnation !== session.incarnation || session.status !== 'running')
          return { session: sessionView(entry, session, incarnation), sandbox: sandboxView(session, kept) }
        // A sandbox that is not persistent cannot be resumed.
        if (!kept.persistent) await sessions.destroy(call.caller, session.id)
        else await sessions.stop(call.caller, session.id, { incarnation })
        const stopped = await sessions.get(call.caller, session.id)
        return { session: sessionView(entry, stopped), sandbox: sandboxView(stopped, kept) }
      },
    },
    {
      method: 'POST',
      path: `${base}/extend-timeout`,
      scope: 'exec',
      async handle(call) {
        const { duration } = parsed(z.looseObject({ duration: z.number().positive() }), call.body)
        const session = await running(entry, call)
        const end = lifetimeEnd(session)
        if (end === undefined) return { session: sessionView(entry, session) }
        // The vendor's value is added to the remaining time; ours counts from now.
        const leftMs = end + duration - Date.now()
        return { session: sessionView(entry, await sessions.setLifetime(call.caller, session.id, leftMs)) }
      },
    },
    {
      method: 'POST',
      path: `${base}/network-policy`,
      scope: 'exec',
      async handle(call) {
        const session = await running(entry, call)
        const changed = await changeNetwork(entry, call.caller, session, parsed(networkPolicy, call.body))
        return { session: sessionView(entry, changed) }
      },
    },
    {
      method: 'POST',
      path: `${base}/interactive`,
      scope: 'exec',
      handle: async () => {
        throw notSupported(
          'An interactive terminal',
          'Use POST /v1/sessions/{id}/terminals of this server’s own API.',
        )
      },
    },
  ]
}

/** The requested run, if it is the current one. */
export async function running(entry: Entry, call: VercelCall): Promise<Session> {
  const { session, incarnation } = await entry.bySession(call.caller, call.params.sid!)
  if (incarnation === session.incarnation && session.status === 'running') return session
  throw stopped(session, incarnation)
}

export function stopped(session: Session, incarnation: number): SandboxError {
  return new SandboxError('not_running', `The session ${sidOf(session, incarnation)} is stopped.`, {
    hint: 'Get the sandbox again with resume: true.',
  })
}

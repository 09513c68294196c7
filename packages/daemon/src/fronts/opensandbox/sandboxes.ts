import { SandboxError } from '@sandkasten/sdk'
import { lifetimeEnd, type Session } from '../../sessions/index.ts'
import { parsed } from '../shared/request.ts'
import { everything } from '../shared/sessions.ts'
import { createSandbox } from './create.ts'
import { type Call, type Entry, noSandbox } from './entry.ts'
import { pageOf, statesAsked } from './pages.ts'
import * as schemas from './schemas.ts'
import { allKept, keptOf, metadataOf, sandboxView, statusesOf } from './views.ts'

export function sandboxRoutes(entry: Entry): void {
  const { sessions } = entry.services
  const view = async (session: Session) => sandboxView(session, await keptOf(entry, session))

  entry.lifecycle('POST', '/sandboxes', 'exec', async ({ caller, body, reply, signal }) => {
    const session = await createSandbox(entry, caller, parsed(schemas.createBody, body), signal)
    reply.code(202).header('location', `/v1/sandboxes/${session.id}`)
    return view(session)
  })

  entry.lifecycle('GET', '/sandboxes', 'read', async (call) => {
    const { caller, query } = call
    const filter = { status: statusesOf(statesAsked(call)), labels: labelsOf(query.metadata) }
    const all =
      filter.status.length === 0
        ? []
        : await everything((options) => sessions.list(caller, { ...filter, ...options }))
    const here = all.filter((session) => sessions.isHere(session))
    const { items, pagination } = pageOf(call, here)
    const kept = await allKept(entry, caller.projectId)
    return { items: items.map((session) => sandboxView(session, kept.get(session.id))), pagination }
  })

  entry.lifecycle('GET', '/sandboxes/:id', 'read', async ({ caller, id }) =>
    view(await entry.find(caller, id)),
  )

  entry.lifecycle('DELETE', '/sandboxes/:id', 'exec', async ({ caller, id, reply }) => {
    await entry.find(caller, id)
    if (!(await sessions.destroy(caller, id))) throw noSandbox(id)
    reply.code(204)
  })

  entry.lifecycle('PATCH', '/sandboxes/:id/metadata', 'exec', async ({ caller, id, body }) => {
    const changes = metadataOf(parsed(schemas.metadataPatch, body))
    await entry.find(caller, id)
    return view(await sessions.setLabels(caller, id, changes))
  })

  entry.lifecycle('POST', '/sandboxes/:id/pause', 'exec', async ({ caller, id, reply }) => {
    const { status } = await entry.find(caller, id)
    if (status !== 'running') throw notNow(id, 'running')
    await sessions.pause(caller, id)
    reply.code(202)
  })

  entry.lifecycle('POST', '/sandboxes/:id/resume', 'exec', async ({ caller, id, reply }) => {
    const { status } = await entry.find(caller, id)
    if (status === 'running' || status === 'creating') throw notNow(id, 'paused')
    await sessions.start(caller, id)
    reply.code(202)
  })

  entry.lifecycle('POST', '/sandboxes/:id/renew-expiration', 'exec', async (call) => {
    const session = await entry.find(call.caller, call.id)
    const until = Date.parse(parsed(schemas.renewBody, call.body).expiresAt)
    const ends = lifetimeEnd(session)
    if (!(until > Date.now()))
      throw new SandboxError('invalid_argument', 'expiresAt must be a time in the future.')
    if (ends === undefined)
      throw new SandboxError('conflict', `Sandbox ${call.id} does not expire.`, {
        hint: 'It was created without a timeout. Delete it when you no longer need it.',
      })
    // Never shortens: an earlier time changes nothing, and the response has the current one.
    const renewed = await sessions.extend(call.caller, call.id, until - Date.now())
    return { expiresAt: new Date(lifetimeEnd(renewed) ?? until).toISOString() }
  })

  // SDKs report the duration of creates here. The report is ignored.
  entry.lifecycle('POST', '/metrics/events', 'read', async ({ reply }: Call) => void reply.code(204))
}

/** Parses `a=b&c=d`. The SDK does not encode the parts, so a part that cannot be decoded is used unchanged. */
function labelsOf(metadata: string | string[] | undefined): Record<string, string> {
  const parts = [metadata ?? []].flat().flatMap((text) => text.split('&').filter((part) => part !== ''))
  return Object.fromEntries(
    parts.map((part) => {
      const [key = '', ...value] = part.split('=')
      return [decoded(key), decoded(value.join('='))]
    }),
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function notNow(id: string, needed: string): SandboxError {
  return new SandboxError('conflict', `Sandbox ${id} is not ${needed}.`, {
    hint: 'Get the sandbox to see its state.',
  })
}

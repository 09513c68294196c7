import { SandboxError } from '@sandkasten/sdk'
import type { z } from 'zod'
import { cursorOf, placeOf } from '../../http/page-cursor.ts'
import type { Caller } from '../../keys/index.ts'
import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import type { Sandboxes } from './lifecycle.ts'
import type { listQuery } from './schemas.ts'

type Query = z.infer<typeof listQuery>

const pageSize = 100

/** Lists a page of the project's sandboxes, filtered and ordered by their start. */
export async function listSandboxes(
  { services }: FrontPlace,
  sandboxes: Sandboxes,
  caller: Caller,
  query: Query,
): Promise<{ items: object[]; next?: string }> {
  const limit = query.limit ?? pageSize
  const records = await sandboxes.records(caller.projectId)
  const startedAfter = timeOf(query.startedAfter)
  const wanted = (session: Session) =>
    services.sessions.isHere(session) &&
    (startedAfter === undefined || session.started_at > startedAfter) &&
    (query.template === undefined ||
      query.template === (records.get(session.id)?.template ?? session.snapshot_id ?? session.image))
  const filter = { status: statusesOf(query.state), labels: labelsOf(query.metadata) }
  const found: Session[] = []
  const ascending = query.order === 'asc'
  let after = ascending ? undefined : placeOf(query.nextToken)
  // The store lists newest first. For ascending order, read all rows and reverse them.
  for (let more = true; more && (ascending || found.length <= limit); ) {
    const page = await services.sessions.list(caller, {
      ...filter,
      limit: pageSize,
      after,
    })
    found.push(...page.filter(wanted))
    const last = page.at(-1)
    more = page.length === pageSize
    if (last) after = { createdAt: last.created_at, id: last.id }
  }
  const rest = ascending ? beyond(found.reverse(), placeOf(query.nextToken)) : found
  const items = rest.slice(0, limit)
  return {
    items: items.map((session) => sandboxes.listed(session, records.get(session.id))),
    next: rest.length > limit ? cursorOf(items.at(-1)!) : undefined,
  }
}

function beyond(sessions: Session[], place: { createdAt: number; id: string } | undefined): Session[] {
  if (!place) return sessions
  return sessions.filter(
    ({ created_at, id }) => created_at > place.createdAt || (created_at === place.createdAt && id > place.id),
  )
}

function statusesOf(state: Query['state']): Session['status'][] {
  const words =
    state === undefined ? ['running', 'paused'] : [state].flat().flatMap((text) => text.split(','))
  return words.flatMap((word): Session['status'][] => {
    if (word === 'running') return ['running']
    if (word === 'paused') return ['paused', 'stopped', 'crashed']
    throw new SandboxError('invalid_argument', `There is no state “${word}”.`, {
      hint: 'Use running or paused.',
    })
  })
}

/** `key=value&…`; the SDKs encode each part once more. */
function labelsOf(metadata: string | undefined): Record<string, string> {
  return Object.fromEntries(
    [...new URLSearchParams(metadata ?? '')].map(([key, value]) => [decoded(key), decoded(value)]),
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const time = Date.parse(text)
  if (Number.isFinite(time)) return time
  throw new SandboxError('invalid_argument', 'startedAfter is not a date.', { hint: 'Use ISO 8601.' })
}

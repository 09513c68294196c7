import type { SessionInfo, SessionStatus } from '../../client/index.ts'
import { SandboxError } from '../../errors.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'

/** A display name. It is stored as a label of the session and hidden from the user's labels. */
export const peopleLabel = 'sandkasten.label'
/** The creator is still setting up the sandbox, since this time; other callers wait. */
export const setupLabel = 'sandkasten.setup'
/** The declared ports. Ports need no declaration here: `getEndpoint` opens them. */
export const portsLabel = 'sandkasten.ports'
const ownLabels: readonly string[] = [peopleLabel, setupLabel, portsLabel]

export function infoOf(info: SessionInfo): SandboxInfo {
  const { [peopleLabel]: label } = info.labels
  const ends = [info.expiresAt, info.lifetimeEndsAt].flatMap((date) => (date ? [date.getTime()] : []))
  return {
    id: `daemon:${info.id}`,
    sandboxId: info.id,
    status: statusOf(info),
    rawStatus: info.status,
    name: info.name,
    label,
    labels: Object.fromEntries(Object.entries(info.labels).filter(([key]) => !ownLabels.includes(key))),
    createdAt: info.createdAt,
    expiresAt: ends.length === 0 ? undefined : new Date(Math.min(...ends)),
  }
}

function statusOf({ status, labels }: SessionInfo): SandboxStatus {
  return status === 'running' && labels[setupLabel] !== undefined ? 'creating' : statuses[status]
}

const statuses: Readonly<Record<SessionStatus, SandboxStatus>> = {
  creating: 'creating',
  running: 'running',
  paused: 'paused',
  stopped: 'stopped',
  // The sandbox crashed, and can be started again.
  crashed: 'stopped',
  failed: 'failed',
  expired: 'destroyed',
  destroyed: 'destroyed',
}

/** Sessions that are usable, at once or after a start. */
export const liveStatuses: readonly SessionStatus[] = ['creating', 'running', 'paused', 'stopped', 'crashed']

export function isLive({ status }: SessionInfo): boolean {
  return liveStatuses.includes(status)
}

/** The daemon's statuses that match these statuses of ours. */
export function sessionStatuses(
  wanted: SandboxStatus | readonly SandboxStatus[] | undefined,
): SessionStatus[] {
  if (wanted === undefined) return [...liveStatuses]
  const list: readonly SandboxStatus[] = Array.isArray(wanted) ? wanted : [wanted as SandboxStatus]
  // The daemon reports a sandbox during its setup as running.
  const all = list.includes('creating') ? [...list, 'running'] : list
  return liveStatuses.filter((status) => all.includes(statuses[status]))
}

export function notFound(sandboxId: string): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'daemon',
    sandboxId,
  })
}

/** The daemon remembers ended sessions and says `gone`; for our users the sandbox does not exist. */
export function translated(error: unknown, sandboxId: string): unknown {
  if (SandboxError.is(error, 'gone') && error.details.oldest === undefined && 'status' in error.details)
    return notFound(sandboxId)
  return error
}

export async function translating<T>(sandboxId: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translated(error, sandboxId)
  }
}

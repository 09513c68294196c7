import { SandboxError } from '../../errors.ts'
import { portsFrom, portsText } from '../../shared/port-list.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'
import type { DaytonaSandboxObject } from './sdk.ts'

/** Marks everything that this library creates. Lists show only marked sandboxes, so a cleanup never deletes others. */
export const managedLabel = 'sandkasten.managed'
/** Identifies one create call, to find the leftovers of a failed one. */
export const createLabel = 'sandkasten.create'
/** The requested name; the vendor's own name may differ. */
export const nameLabel = 'sandkasten.name'
/** Snapshots have no labels, so a name prefix marks ours. */
export const snapshotPrefix = 'sandkasten-'
const peopleLabel = 'sandkasten.label'
/** The creator is still setting up the sandbox, since this time; other callers wait. */
export const setupLabel = 'sandkasten.setup'
const portsLabel = 'sandkasten.ports'
const language = 'code-toolbox-language'
const ownLabels: readonly string[] = [
  managedLabel,
  createLabel,
  nameLabel,
  peopleLabel,
  setupLabel,
  portsLabel,
  language,
]

export function labelsOf(spec: {
  labels: Readonly<Record<string, string>>
  name?: string
  label?: string
  ports?: readonly number[]
  deferReady: boolean
  createId: string
}): Record<string, string> {
  return {
    ...spec.labels,
    [managedLabel]: 'true',
    [createLabel]: spec.createId,
    ...(spec.name === undefined ? {} : { [nameLabel]: spec.name }),
    ...(spec.label === undefined ? {} : { [peopleLabel]: spec.label }),
    ...(spec.ports === undefined ? {} : { [portsLabel]: portsText(spec.ports) }),
    ...(spec.deferReady ? { [setupLabel]: new Date().toISOString() } : {}),
  }
}

export function portsOf({ labels }: DaytonaSandboxObject): number[] {
  return portsFrom(labels?.[portsLabel])
}

export function infoOf(sandbox: DaytonaSandboxObject): SandboxInfo {
  const labels = sandbox.labels ?? {}
  const { [nameLabel]: name, [peopleLabel]: label } = labels
  const createdAt = dateOf(sandbox.createdAt)
  const expiresAt = dateOf(sandbox.autoDestroyAt)
  return {
    id: `daytona:${sandbox.id}`,
    sandboxId: sandbox.id,
    status: statusOf(sandbox),
    rawStatus: sandbox.state,
    name,
    label,
    labels: Object.fromEntries(Object.entries(labels).filter(([key]) => !ownLabels.includes(key))),
    createdAt,
    expiresAt,
  }
}

export function statusOf({ state = 'unknown', labels, recoverable }: DaytonaSandboxObject): SandboxStatus {
  if (state === 'started') return labels?.[setupLabel] === undefined ? 'running' : 'creating'
  // The sandbox can be started again.
  if (state === 'error' && recoverable) return 'stopped'
  return statuses[state] ?? 'unknown'
}

const statuses: Readonly<Record<string, SandboxStatus>> = {
  creating: 'creating',
  restoring: 'creating',
  starting: 'creating',
  pulling_snapshot: 'creating',
  building_snapshot: 'creating',
  pending_build: 'creating',
  resuming: 'creating',
  started: 'running',
  snapshotting: 'running',
  forking: 'running',
  resizing: 'running',
  stopping: 'running',
  pausing: 'running',
  stopped: 'stopped',
  paused: 'paused',
  archiving: 'archived',
  archived: 'archived',
  error: 'failed',
  build_failed: 'failed',
  destroying: 'destroyed',
  destroyed: 'destroyed',
}

/** Transient states: the vendor moves on to another state. */
const transitional = new Set([
  'creating',
  'restoring',
  'starting',
  'stopping',
  'pausing',
  'resuming',
  'archiving',
  'pulling_snapshot',
  'building_snapshot',
  'pending_build',
  'snapshotting',
  'forking',
  'resizing',
])

export function isTransitional(state: string | undefined): boolean {
  return state !== undefined && transitional.has(state)
}

/** The vendor's name for a name of ours. The vendor's names are unique and allow fewer characters. */
export async function vendorName(name: string): Promise<string> {
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(name)) return name
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(name))
  return `sk-${Buffer.from(hash).toString('hex').slice(0, 40)}`
}

export function failed(sandbox: DaytonaSandboxObject): SandboxError {
  return new SandboxError('provider_error', `The sandbox ${sandbox.id} is in the state “${sandbox.state}”.`, {
    provider: 'daytona',
    sandboxId: sandbox.id,
    details: { state: sandbox.state, reason: sandbox.errorReason },
    hint: 'details.reason has Daytona’s explanation. Destroy the sandbox and create it again.',
  })
}

function dateOf(text: string | undefined): Date | undefined {
  const date = text === undefined ? undefined : new Date(text)
  return date && !Number.isNaN(date.getTime()) ? date : undefined
}

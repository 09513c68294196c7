import type { CreateSpec } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { portsFrom, portsText } from '../../shared/port-list.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'

/** The vendor's description of a sandbox, checked. */
export interface VendorSandbox {
  readonly id: string
  readonly status: string
  /** The address of the vendor's agent in it. */
  readonly host: string | undefined
  readonly internetAccess: boolean | undefined
  readonly createdAt: Date | undefined
  readonly expiresAt: Date | undefined
}

/**
 * What we know of a sandbox and the vendor does not keep: it has no labels. It is in a variable of the sandbox, so a
 * program with enough rights can change it. Only `list()` and the cleanup of a failed create depend on it.
 */
export interface Mark {
  readonly createId: string
  readonly label: string | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly ports: readonly number[]
}

export const markVariable = 'SANDKASTEN_MARK'

export function markText({ label, labels, ports = [] }: CreateSpec, createId: string): string {
  const text = JSON.stringify({ createId, label, labels, ports: portsText(ports) })
  if (new TextEncoder().encode(text).byteLength <= mostMark) return text
  throw new SandboxError('invalid_argument', 'The labels are too long.', {
    provider: 'hopx',
    hint: `Labels, label and ports must fit into ${mostMark / 1024} KiB.`,
  })
}

/** Undefined if the variable is missing or has another form: the sandbox is not ours. */
export function markOf(text: unknown): Mark | undefined {
  if (typeof text !== 'string' || text.length > mostMark) return undefined
  try {
    const { createId, label, labels, ports } = JSON.parse(text) as Record<string, unknown>
    if (typeof createId !== 'string' || typeof labels !== 'object' || labels === null) return undefined
    if (Object.values(labels).some((value) => typeof value !== 'string')) return undefined
    return {
      createId,
      label: typeof label === 'string' ? label : undefined,
      labels: labels as Record<string, string>,
      ports: portsFrom(typeof ports === 'string' && ports !== '' ? ports : undefined),
    }
  } catch {
    return undefined
  }
}

const mostMark = 64 * 1024

export function vendorSandbox(given: unknown): VendorSandbox | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const { id, sandbox_id, status, public_host, internet_access, created_at, expires_at } = given as Record<
    string,
    unknown
  >
  const known = typeof id === 'string' ? id : sandbox_id
  if (typeof known !== 'string' || !isId(known)) return undefined
  return {
    id: known,
    status: typeof status === 'string' ? status.slice(0, 100) : 'unknown',
    host: typeof public_host === 'string' && public_host !== '' ? public_host : undefined,
    internetAccess: typeof internet_access === 'boolean' ? internet_access : undefined,
    createdAt: dateOf(created_at),
    expiresAt: dateOf(expires_at),
  }
}

export function infoOf(vendor: VendorSandbox, mark: Mark | undefined): SandboxInfo {
  return {
    id: `hopx:${vendor.id}`,
    sandboxId: vendor.id,
    status: statusOf(vendor),
    rawStatus: vendor.status,
    label: mark?.label,
    labels: { ...mark?.labels },
    createdAt: vendor.createdAt,
    expiresAt: vendor.expiresAt,
  }
}

export function statusOf({ status }: VendorSandbox): SandboxStatus {
  return Object.hasOwn(statuses, status) ? statuses[status]! : 'unknown'
}

const statuses: Readonly<Record<string, SandboxStatus>> = {
  creating: 'creating',
  running: 'running',
  active: 'running',
  paused: 'paused',
  stopped: 'stopped',
}

/**
 * The public address of a port. The vendor's agent has port 7777, `https://7777-ID.REGION.vms.hopx.dev`; another port
 * has its number there. An agent's host without a number is the same address.
 */
export function portUrl(host: string, port: number): string | undefined {
  if (!URL.canParse(host)) return undefined
  const url = new URL(host)
  const [, machine, domain] = /^(?:\d+-)?([a-z0-9_-]+)\.(.+\.vms\.hopx\.dev)$/.exec(url.hostname) ?? []
  if (machine === undefined) return undefined
  return `${url.protocol}//${port}-${machine}.${domain}${url.port === '' ? '' : `:${url.port}`}`
}

/** Whether the id is well-formed. Any other text could form another path of the vendor's API. */
export function isId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(id)
}

export function notFound(sandboxId: string, cause?: SandboxError): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'hopx',
    sandboxId,
    cause,
    requestId: cause?.requestId,
  })
}

export function notRunning(sandboxId: string, state: string, cause?: unknown): SandboxError {
  return new SandboxError('not_running', `The sandbox ${sandboxId} is ${state}.`, {
    provider: 'hopx',
    sandboxId,
    cause,
    details: { state },
  })
}

function dateOf(text: unknown): Date | undefined {
  const date = typeof text === 'string' ? new Date(text) : undefined
  return date && !Number.isNaN(date.getTime()) ? date : undefined
}

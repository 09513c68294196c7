import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'
import type { VendorSandbox, VendorSandboxData } from './sdk.ts'

/**
 * Translates between the vendor's terms and ours. The vendor identifies a sandbox by its name. Our names can be reused while
 * ids cannot, and allow more characters. So:
 *
 *     ours „Ada's box“  ──►  sk-ada-s-box-1f0c…   the vendor's name: readable, and unique through a hash of our name
 *     id                     sk-ada-s-box-1f0c….m3k2x   the vendor's name and the creation time
 *     tag „sandkasten“       our own data: name, label, whether the setup is complete
 */

export const ownTag = 'sandkasten'
/** The vendor allows five, and one of them is ours. */
const mostLabels = 4

interface Own {
  /** Name. */
  n?: string
  /** Label for display. */
  l?: string
  /** The creator has been setting up the sandbox since this time. */
  s?: number
  /** Identifies the create call, to tell our sandbox from another one when the response was lost. */
  c?: string
}

export function idOf(name: string, createdAt: number): string {
  return `${name}.${createdAt.toString(36)}`
}

/** The vendor's name in an id, and the creation time. A bare name refers to any sandbox with that name. */
export function partsOf(sandboxId: string): { name: string; createdAt?: number } {
  const [, name, made] = /^([A-Za-z0-9_-]{1,200})(?:\.([0-9a-z]{1,12}))?$/.exec(sandboxId) ?? []
  if (name === undefined) throw notFound(sandboxId)
  return made === undefined ? { name } : { name, createdAt: Number.parseInt(made, 36) }
}

export function tagsOf(
  given: { name?: string | undefined; label?: string | undefined; labels: Readonly<Record<string, string>> },
  setup: boolean,
): Record<string, string> {
  const keys = Object.keys(given.labels)
  if (keys.length > mostLabels)
    throw new SandboxError(
      'invalid_argument',
      `Vercel stores at most ${mostLabels} labels for a sandbox; ${keys.length} are given.`,
      {
        provider: 'vercel',
        hint: 'Use fewer labels.',
      },
    )
  if (keys.includes(ownTag))
    throw new SandboxError('invalid_argument', `The label “${ownTag}” is reserved for this library.`, {
      provider: 'vercel',
    })
  const own: Own = {
    n: given.name,
    l: given.label,
    s: setup ? Date.now() : undefined,
    c: randomId(8),
  }
  return { ...given.labels, [ownTag]: packed(own) }
}

/** The tags after the setup is complete. */
export function readyTags(tags: Readonly<Record<string, string>> | undefined): Record<string, string> {
  const { s: _, ...own } = ownOf(tags)
  return { ...tags, [ownTag]: packed(own) }
}

/** Undefined when the setup is complete. */
export function setupSince(tags: Readonly<Record<string, string>> | undefined): number | undefined {
  return ownOf(tags).s
}

export function nameOf(tags: Readonly<Record<string, string>> | undefined): string | undefined {
  return ownOf(tags).n
}

/** The vendor exposes only declared ports, so its routes are the ports. */
export function portsOf({ routes }: Pick<VendorSandbox, 'routes'>): number[] {
  return routes.map(({ port }) => port).sort((a, b) => a - b)
}

export function infoOf(data: {
  name: string
  status: string
  createdAt: number
  expiresAt?: number | undefined
  tags?: Readonly<Record<string, string>> | undefined
}): SandboxInfo {
  const sandboxId = idOf(data.name, data.createdAt)
  const { [ownTag]: _, ...labels } = data.tags ?? {}
  const own = ownOf(data.tags)
  return {
    id: `vercel:${sandboxId}`,
    sandboxId,
    status: own.s === undefined ? statusOf(data.status) : 'creating',
    rawStatus: data.status,
    name: own.n,
    label: own.l,
    labels,
    createdAt: new Date(data.createdAt),
    expiresAt: data.expiresAt === undefined ? undefined : new Date(data.expiresAt),
  }
}

export function infoOfSandbox(sandbox: VendorSandbox): SandboxInfo {
  const { name, status, createdAt, expiresAt, tags } = sandbox
  const runs = status === 'running'
  return infoOf({
    name,
    status,
    createdAt: createdAt.getTime(),
    expiresAt: runs ? expiresAt?.getTime() : undefined,
    tags,
  })
}

export function isOurs({ tags }: Pick<VendorSandboxData, 'tags'>): boolean {
  return tags?.[ownTag] !== undefined
}

export function statusOf(status: string): SandboxStatus {
  return statuses[status] ?? 'unknown'
}

const statuses: Readonly<Record<string, SandboxStatus>> = {
  pending: 'creating',
  running: 'running',
  stopping: 'stopped',
  stopped: 'stopped',
  snapshotting: 'stopped',
  failed: 'failed',
  aborted: 'failed',
}

export function notFound(sandboxId: string, cause?: unknown): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'vercel',
    sandboxId,
    cause,
    requestId: SandboxError.is(cause) ? cause.requestId : undefined,
  })
}

function packed(own: Own): string {
  const bytes = new TextEncoder().encode(JSON.stringify(own))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

function ownOf(tags: Readonly<Record<string, string>> | undefined): Own {
  const text = tags?.[ownTag]
  if (text === undefined) return {}
  try {
    const bytes = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (char) => char.charCodeAt(0)))) as Own
  } catch {
    // The tag belongs to another program.
    return {}
  }
}

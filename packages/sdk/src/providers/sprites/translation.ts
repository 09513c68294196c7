import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import { portsFrom, portsText } from '../../shared/port-list.ts'
import type { SandboxInfo, SandboxStatus } from '../../spec/index.ts'
import type { VendorFacts } from './sdk.ts'

/**
 * Translates between the vendor's terms and ours. The vendor addresses a sprite by its name, and its labels are words, not
 * pairs. So:
 *
 *     ours „Ada's box“  ──►  sk-ada-s-box-1f0c…   the vendor's name; see `shared/vendor-name.ts`
 *     id                     sk-ada-s-box-1f0c….0123-4567…   the vendor's name and its id, because names can be reused
 *     label „sandkasten-…“   our own data as base64url: name, labels, ports, whether the setup is complete
 */

const ownMark = 'sandkasten-'

interface Own {
  /** Name. */
  n?: string
  /** Label for display. */
  l?: string
  labels?: Record<string, string>
  ports?: string
  /** The creator has been setting up the sandbox since this time. */
  s?: number
  /** Identifies the create call, to find its sprite if the response is lost. */
  c?: string
}

export function idOf({ name, id }: VendorFacts): string {
  if (!isVendorId(id))
    throw new SandboxError('provider_error', 'Sprites returned a sprite without a valid id.', {
      provider: 'sprites',
    })
  return `${name}.${id}`
}

/** The vendor's name in an id, and its id. A bare name refers to any sprite with that name. */
export function partsOf(sandboxId: string): { name: string; id?: string } {
  const [, name, id] = /^([a-z][a-z0-9-]{0,62})(?:\.([A-Za-z0-9-]{1,64}))?$/.exec(sandboxId) ?? []
  if (name === undefined) throw notFound(sandboxId)
  return id === undefined ? { name } : { name, id }
}

export function isVendorId(id: unknown): id is string {
  return typeof id === 'string' && /^[A-Za-z0-9-]{1,64}$/.test(id)
}

export interface Labelled {
  readonly name?: string | undefined
  readonly label?: string | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly ports?: readonly number[] | undefined
  readonly deferReady: boolean
}

export function labelOf(given: Labelled): string {
  return packed({
    n: given.name,
    l: given.label,
    labels: given.labels,
    ports: given.ports && portsText(given.ports),
    s: given.deferReady ? Date.now() : undefined,
    c: randomId(),
  })
}

/** The labels after the setup is complete. */
export function readyLabels(facts: VendorFacts): string[] {
  const { s: _, ...own } = ownOf(facts)
  return (facts.labels ?? []).map((label) => (label.startsWith(ownMark) ? packed(own) : label))
}

/** Undefined when the setup is complete. */
export function setupSince(facts: VendorFacts): number | undefined {
  const { s } = ownOf(facts)
  return typeof s === 'number' ? s : undefined
}

export function nameOf(facts: VendorFacts): string | undefined {
  return text(ownOf(facts).n)
}

export function portsOf(facts: VendorFacts): number[] {
  return portsFrom(text(ownOf(facts).ports))
}

export function isOurs({ labels = [] }: VendorFacts): boolean {
  return labels.some((label) => label.startsWith(ownMark))
}

export function infoOf(facts: VendorFacts): SandboxInfo {
  const sandboxId = idOf(facts)
  const own = ownOf(facts)
  const { createdAt, status = '' } = facts
  return {
    id: `sprites:${sandboxId}`,
    sandboxId,
    status: own.s === undefined ? statusOf(status) : 'creating',
    rawStatus: status,
    name: text(own.n),
    label: text(own.l),
    labels: Object.fromEntries(
      Object.entries(own.labels ?? {}).filter(([, value]) => typeof value === 'string'),
    ),
    createdAt: createdAt && Number.isFinite(createdAt.getTime()) ? createdAt : undefined,
  }
}

/** A sprite that sleeps (`warm`, `cold`) wakes for the next call, so for its users it runs. */
function statusOf(status: string): SandboxStatus {
  return status === 'running' || status === 'warm' || status === 'cold' ? 'running' : 'unknown'
}

export function notFound(sandboxId: string): SandboxError {
  return new SandboxError('not_found', `The sandbox ${sandboxId} does not exist.`, {
    provider: 'sprites',
    sandboxId,
  })
}

function packed(own: Own): string {
  const bytes = new TextEncoder().encode(JSON.stringify(own))
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
  return ownMark + base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

function ownOf({ labels = [] }: VendorFacts): Own {
  const label = labels.find((one) => one.startsWith(ownMark))
  if (label === undefined) return {}
  try {
    const bytes = atob(label.slice(ownMark.length).replaceAll('-', '+').replaceAll('_', '/'))
    const own: unknown = JSON.parse(
      new TextDecoder().decode(Uint8Array.from(bytes, (char) => char.charCodeAt(0))),
    )
    return typeof own === 'object' && own !== null ? own : {}
  } catch {
    // The label belongs to another program.
    return {}
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

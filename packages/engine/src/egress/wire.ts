/** The control protocol of the gateway, as `protocol/egress.md` defines it. */

export type GatewayRule =
  | { readonly host: string; readonly ports?: readonly number[]; readonly protocol?: 'tls' | 'http' | 'tcp' }
  | { readonly cidr: string; readonly ports?: readonly number[] }
  | { readonly service: string; readonly to: string }

export type GatewayHeader =
  | string
  | {
      readonly secret: string
      readonly prefix?: string
      readonly suffix?: string
      readonly basic?: string
    }

export interface GatewayTransform {
  readonly match: { readonly host: string; readonly path?: string; readonly methods?: readonly string[] }
  readonly headers: Readonly<Record<string, GatewayHeader>>
}

export interface GatewayPolicy {
  readonly allow: readonly GatewayRule[]
  readonly deny: readonly GatewayRule[]
  readonly transform: readonly GatewayTransform[]
  /** Trusted as authorities of upstream servers, besides this machine's. */
  readonly upstreamCa?: readonly string[]
  readonly audit: boolean
  readonly limits: {
    readonly connections: number
    readonly bytesPerSecond: number | null
    readonly bytes: number | null
  }
}

/** A certificate authority of one sandbox, both as PEM. */
export interface Authority {
  readonly cert: string
  readonly key: string
}

/** What the gateway must know of this machine: resolvers, the addresses that are closed, and names from `/etc/hosts`. */
export interface HostFacts {
  readonly resolvers: readonly string[]
  readonly own: readonly string[]
  readonly hosts: Readonly<Record<string, readonly string[]>>
}

export interface EgressStats {
  readonly connections: number
  readonly bytesIn: number
  readonly bytesOut: number
  /** Connections, requests and lookups that were refused. */
  readonly refused: number
}

export interface EgressEvent {
  /** Counts up, also over a restart of the gateway. To resume, pass the last one as `after`. */
  readonly seq: number
  readonly sandbox: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly kind: 'tcp' | 'tls' | 'http' | 'dns' | 'udp' | 'icmp' | 'other'
  readonly host: string | null
  readonly address: string | null
  readonly port: number | null
  readonly verdict: 'allowed' | 'denied' | 'audit' | 'error'
  /** The rule that decided. */
  readonly rule: string | null
  /** Why it was denied or failed, as a word of `protocol/egress.md`. */
  readonly reason: string | null
  readonly bytesIn: number
  readonly bytesOut: number
  readonly durationMs: number
  readonly method: string | null
  /** Without the query. */
  readonly path: string | null
  readonly status: number | null
}

export type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const kinds: readonly unknown[] = ['tcp', 'tls', 'http', 'dns', 'udp', 'icmp', 'other']
const verdicts: readonly unknown[] = ['allowed', 'denied', 'audit', 'error']

/** Undefined for an event that this version does not know: its texts come from inside sandboxes. */
export function asEvent(value: unknown): EgressEvent | undefined {
  if (!isFields(value)) return undefined
  const { seq, sandbox, at, kind, verdict } = value
  if (!isCount(seq) || !isCount(at) || typeof sandbox !== 'string') return undefined
  if (!kinds.includes(kind) || !verdicts.includes(verdict)) return undefined
  return {
    seq,
    sandbox,
    at,
    kind: kind as EgressEvent['kind'],
    host: text(value.host),
    address: text(value.address),
    port: number(value.port),
    verdict: verdict as EgressEvent['verdict'],
    rule: text(value.rule),
    reason: text(value.reason),
    bytesIn: number(value.bytesIn) ?? 0,
    bytesOut: number(value.bytesOut) ?? 0,
    durationMs: number(value.durationMs) ?? 0,
    method: text(value.method),
    path: text(value.path),
    status: number(value.status),
  }
}

export function asStats(value: unknown): (EgressStats & { readonly sandbox: string }) | undefined {
  if (!isFields(value) || typeof value.sandbox !== 'string') return undefined
  const count = (name: string) => number(value[name]) ?? 0
  return {
    sandbox: value.sandbox,
    connections: count('connections'),
    bytesIn: count('bytesIn'),
    bytesOut: count('bytesOut'),
    refused: count('refused'),
  }
}

const MAX_TEXT = 4096

function text(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : null
}

function number(value: unknown): number | null {
  return isCount(value) ? value : null
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

import type { SecretInfo } from './egress.ts'
import { networkBody, networkOf } from './network-wire.ts'
import type {
  CommandInfo,
  CreateSessionOptions,
  ExecResult,
  Policy,
  PortInfo,
  ProjectPolicy,
  RunResult,
  SessionEvent,
  SessionInfo,
  SessionVolume,
  SnapshotInfo,
  VolumeInfo,
} from './types.ts'

/** Translates between the API (snake_case, null, times as text) and the SDK (camelCase, undefined, Date). */

type Wire = Record<string, unknown>

/** Converts the fields of a response. Drops nulls and converts times to dates. Nested values stay as they are. */
export function camel<T>(wire: Wire): T {
  const entries = Object.entries(wire)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      isTime(name) && typeof value === 'string' ? new Date(value) : value,
    ])
  return Object.fromEntries(entries) as T
}

/** Converts fields for a request. JSON drops undefined values. */
export function snake(options: object): Wire {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}

export function sessionInfo(wire: Wire): SessionInfo {
  // Daemons before 0.2 have no volumes.
  const volumes = ((wire.volumes ?? []) as Wire[]).map((volume) => camel<SessionVolume>(volume))
  const network = networkOf(wire.network, wire.network_mode)
  return { ...camel<SessionInfo>(wire), limits: camel(wire.limits as Wire), volumes, network }
}

export function createBody(options: CreateSessionOptions): Wire {
  const { signal: _, limits, volumes, network, extra, ...rest } = options
  return {
    ...snake(rest),
    limits: limits && snake(limits),
    volumes: volumes?.map(snake),
    network: network && networkBody(network),
    ...extra,
  }
}

export function policyBody({ max, ...rest }: Policy): Wire {
  return { ...snake(rest), max: max && snake(max) }
}

export function projectPolicy({ policy, effective }: Wire): ProjectPolicy {
  return { policy: withMax(policy as Wire), effective: withMax(effective as Wire) }
}

function withMax<T>({ max, ...rest }: Wire): T {
  return { ...camel<T>(rest), ...(max ? { max: camel(max as Wire) } : {}) }
}

export function commandInfo(wire: Wire): CommandInfo {
  const { result, ...rest } = wire
  return { ...camel<CommandInfo>(rest), result: result ? commandResult(result as Wire) : undefined }
}

export function commandResult<T = RunResult | ExecResult>(wire: Wire): T {
  const { exec_id: _, seq: __, ...rest } = wire
  return camel<T>(rest)
}

export function snapshotInfo(wire: Wire): SnapshotInfo {
  return camel(wire)
}

export function volumeInfo(wire: Wire): VolumeInfo {
  return camel(wire)
}

export function portInfo(wire: Wire): PortInfo {
  return camel(wire)
}

export function secretInfo(wire: Wire): SecretInfo {
  return camel(wire)
}

export function sessionEvent(wire: Wire): SessionEvent {
  return camel(wire)
}

function isTime(name: string): boolean {
  return name.endsWith('_at') || name === 'last_activity'
}

/** Encodes in steps, because a call takes a limited number of arguments. */
export function base64(data: Uint8Array): string {
  let text = ''
  for (let at = 0; at < data.byteLength; at += 8192)
    text += String.fromCharCode(...data.subarray(at, at + 8192))
  return btoa(text)
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const latin1 = atob(text)
  const bytes = new Uint8Array(latin1.length)
  for (let at = 0; at < latin1.length; at += 1) bytes[at] = latin1.charCodeAt(at)
  return bytes
}

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { HostKeyAlgorithm } from '../sdk.ts'

/**
 * Parses OpenSSH's `known_hosts`: plain and hashed names, patterns, exceptions with `!`, ports as `[host]:port`, and
 * `@revoked`. It ignores `@cert-authority` lines, because ssh2 does not support certificates.
 */
export interface KnownHost {
  readonly hosts: string
  readonly type: string
  readonly key: string
  readonly revoked: boolean
}

export type Verdict = 'known' | 'unknown' | 'changed' | 'revoked'

export function parseKnownHosts(text: string): KnownHost[] {
  return text.split('\n').flatMap((line) => {
    const fields = line.trim().split(/\s+/)
    if (fields[0] === '' || fields[0]!.startsWith('#')) return []
    const marker = fields[0]!.startsWith('@') ? fields.shift() : undefined
    const [hosts, type, key] = fields
    if (!hosts || !type || !key || marker === '@cert-authority') return []
    return [{ hosts, type, key, revoked: marker === '@revoked' }]
  })
}

export function linesFor(known: readonly KnownHost[], host: string, port: number): KnownHost[] {
  const name = port === 22 ? host : `[${host}]:${port}`
  return known.filter(({ hosts }) => matchesHost(hosts, name.toLowerCase()))
}

export function judge(lines: readonly KnownHost[], key: Buffer): Verdict {
  const encoded = key.toString('base64')
  if (lines.some((line) => line.revoked && line.key === encoded)) return 'revoked'
  const valid = lines.filter(({ revoked }) => !revoked)
  if (valid.some((line) => line.key === encoded)) return 'known'
  // A host known only by a key of another type counts as changed.
  return valid.length > 0 ? 'changed' : 'unknown'
}

/** `SHA256:…`, as `ssh-keygen -lf` prints it. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
}

/** The type is the first string in a public key. */
export function keyType(key: Buffer): string {
  const length = key.length >= 4 ? key.readUInt32BE(0) : 0
  return key.subarray(4, 4 + Math.min(length, 64)).toString('latin1')
}

/** Whether the caller named this key: by fingerprint, or by the key itself with or without its type. */
export function isNamed(names: readonly string[], key: Buffer): boolean {
  const encoded = key.toString('base64')
  return names.some(
    (name) => name.trim() === fingerprint(key) || name.trim().split(/\s+/).slice(0, 2).includes(encoded),
  )
}

/** Asks for the known key types first, so that a host with several keys presents a known one. */
export function preferredAlgorithms(lines: readonly KnownHost[]): HostKeyAlgorithm[] | undefined {
  const types = new Set(lines.filter(({ revoked }) => !revoked).map(({ type }) => type))
  if (types.size === 0) return undefined
  const first = algorithms.filter(({ type }) => types.has(type))
  const rest = algorithms.filter(({ type }) => !types.has(type))
  return [...first, ...rest].flatMap(({ names }) => names)
}

const algorithms: ReadonlyArray<{ type: string; names: readonly HostKeyAlgorithm[] }> = [
  { type: 'ssh-ed25519', names: ['ssh-ed25519'] },
  { type: 'ecdsa-sha2-nistp256', names: ['ecdsa-sha2-nistp256'] },
  { type: 'ecdsa-sha2-nistp384', names: ['ecdsa-sha2-nistp384'] },
  { type: 'ecdsa-sha2-nistp521', names: ['ecdsa-sha2-nistp521'] },
  { type: 'ssh-rsa', names: ['rsa-sha2-512', 'rsa-sha2-256'] },
]

function matchesHost(hosts: string, name: string): boolean {
  if (hosts.startsWith('|1|')) return matchesHash(hosts, name)
  const patterns = hosts.toLowerCase().split(',')
  if (patterns.some((pattern) => pattern.startsWith('!') && matchesPattern(pattern.slice(1), name)))
    return false
  return patterns.some((pattern) => !pattern.startsWith('!') && matchesPattern(pattern, name))
}

/** `|1|salt|hash`: HMAC-SHA1 of the name with the salt. */
function matchesHash(entry: string, name: string): boolean {
  const [, , salt, hash] = entry.split('|')
  if (!salt || !hash) return false
  const expected = Buffer.from(hash, 'base64')
  const actual = createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest()
  return expected.length === actual.length && timingSafeEqual(expected, actual)
}

function matchesPattern(pattern: string, name: string): boolean {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${source}$`, 's').test(name)
}

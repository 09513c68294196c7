/** Validates the runner's data. A field of the wrong type is a protocol violation. */
import type { CborMap, CborValue } from './cbor.ts'
import { isMap } from './cbor.ts'
import { ProtocolError } from './errors.ts'

export type Bytes = string | Uint8Array

export function int(map: CborMap, key: string): number {
  const value = map[key]
  if (typeof value !== 'number') throw wrong(key, 'an integer')
  return value
}

export function maybeInt(map: CborMap, key: string): number | undefined {
  return map[key] === undefined || map[key] === null ? undefined : int(map, key)
}

export function text(map: CborMap, key: string): string {
  const value = map[key]
  if (typeof value !== 'string') throw wrong(key, 'text')
  return value
}

export function maybeText(map: CborMap, key: string): string | undefined {
  return map[key] === undefined || map[key] === null ? undefined : text(map, key)
}

export function bool(map: CborMap, key: string): boolean {
  const value = map[key]
  if (typeof value !== 'boolean') throw wrong(key, 'a boolean')
  return value
}

export function bytes(map: CborMap, key: string): Uint8Array {
  const value = map[key]
  if (!(value instanceof Uint8Array)) throw wrong(key, 'bytes')
  return value
}

export function maybeBytes(map: CborMap, key: string): Uint8Array | undefined {
  return map[key] === undefined || map[key] === null ? undefined : bytes(map, key)
}

export function maps(map: CborMap, key: string): CborMap[] {
  const value = map[key]
  if (!Array.isArray(value)) throw wrong(key, 'an array')
  return value.map((item: CborValue) => {
    if (!isMap(item)) throw wrong(key, 'an array of maps')
    return item
  })
}

export function maybeMap(map: CborMap, key: string): CborMap | undefined {
  const value = map[key]
  if (value === undefined || value === null) return undefined
  if (!isMap(value)) throw wrong(key, 'a map')
  return value
}

/** Names and arguments are sent as bytes; strings are encoded as UTF-8. */
export function toBytes(value: Bytes): Uint8Array {
  return typeof value === 'string' ? Buffer.from(value, 'utf8') : value
}

/** For display. Replaces invalid UTF-8; callers that need the exact name use the bytes. */
export function shown(value: Uint8Array): string {
  return Buffer.from(value.buffer, value.byteOffset, value.length).toString('utf8')
}

function wrong(key: string, want: string): ProtocolError {
  return new ProtocolError('malformed', `${key}: must be ${want}`)
}

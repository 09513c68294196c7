import { hash, timingSafeEqual } from 'node:crypto'
import { randomId } from '@sandkasten/sdk/provider'

const prefix = 'sk-sandkasten-'

/** 160 random bits: too many to guess, so one round of SHA-256 keeps them safe at rest. */
export function newKey(): string {
  return `${prefix}${randomId(32)}`
}

export function hashOf(key: string): string {
  return hash('sha256', key)
}

/** Compares in constant time. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a, 'hex'), Buffer.from(b, 'hex')]
  return left.length === right.length && timingSafeEqual(left, right)
}

/** The key or token as a client sends it: plain, or as `e2b_` and hexadecimal digits, which some versions of E2B's SDK need. */
export function plainKey(given: string): string {
  const hex = /^e2b_((?:[0-9a-f]{2})+)$/.exec(given)?.[1]
  if (hex === undefined) return given
  const key = Buffer.from(hex, 'hex').toString('latin1')
  return /^[!-~]{8,8192}$/.test(key) ? key : given
}

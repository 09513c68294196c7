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

/** Takes the same time wherever the two differ. */
export function sameHash(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a, 'hex'), Buffer.from(b, 'hex')]
  return left.length === right.length && timingSafeEqual(left, right)
}

import { createHmac } from 'node:crypto'
import { randomId } from '@sandkasten/sdk/provider'
import { hashOf, sameHash } from '../keys/index.ts'
import type { PortRow } from '../store/index.ts'

/**
 * Creates and verifies signed links, `l1.<expiry>.<signature>`, which give access to a port. They are not stored. The
 * signature covers session, port, expiry and the port's generation, so closing or reopening a port revokes its links.
 * The signing key never leaves the daemon's data folder. A port's token is different: it is random, stored as a hash,
 * and valid until it is replaced.
 */
export class Links {
  readonly #secret: string

  constructor(secret: string) {
    this.#secret = secret
  }

  sign(row: PortRow, expiresAt: number): string {
    const expiry = Math.ceil(expiresAt / 1000).toString(36)
    return `l1.${expiry}.${this.#signature(row, expiry).toString('base64url')}`
  }

  /** The link's expiry; undefined when the link is not valid. */
  verify(row: PortRow, token: string): number | undefined {
    const match = /^l1\.([0-9a-z]{1,9})\.([\w-]{43})$/.exec(token)
    if (!match) return undefined
    const given = Buffer.from(match[2]!, 'base64url').toString('hex')
    if (!sameHash(given, this.#signature(row, match[1]!).toString('hex'))) return undefined
    const expiresAt = Number.parseInt(match[1]!, 36) * 1000
    return expiresAt > Date.now() ? expiresAt : undefined
  }

  #signature(row: PortRow, expiry: string): Buffer {
    return createHmac('sha256', this.#secret)
      .update(`${row.session_id} ${row.port} ${row.generation} ${expiry}`)
      .digest()
  }
}

export function newToken(): string {
  return `pt-${randomId(32)}`
}

export function isTokenOf(row: PortRow, token: string): boolean {
  return row.token_hash !== null && sameHash(row.token_hash, hashOf(token))
}

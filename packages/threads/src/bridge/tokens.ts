import { createHash, randomBytes } from 'node:crypto'

/**
 * Tokens of threads: 256 bits, of which only a hash is kept. They live as long as the bot, because the addresses that
 * they belong to do, too.
 */
export class BridgeTokens {
  readonly #threads = new Map<string, string>()

  /** A new token. Other tokens of the thread stay valid until they are revoked. */
  make(threadId: string): string {
    const token = randomBytes(32).toString('base64url')
    this.#threads.set(digest(token), threadId)
    return token
  }

  /** The lookup is by hash, so its time says nothing about the token. */
  threadOf(token: string): string | undefined {
    return this.#threads.get(digest(token))
  }

  revoke(token: string): boolean {
    return this.#threads.delete(digest(token))
  }

  revokeAll(threadId: string): void {
    for (const [hash, owner] of this.#threads) if (owner === threadId) this.#threads.delete(hash)
  }
}

function digest(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}

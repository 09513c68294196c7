import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Scope } from '@sandkasten/registry'

/** What one token opens: one sandbox, whatever its name is then. */
export interface SandboxGrant {
  /** The id of the registry’s record. */
  readonly sandboxId: string
  /** Its name when the token was made, for messages. */
  readonly name: string
  readonly scope: Scope
  /** An ISO date. */
  readonly createdAt: string
}

/**
 * Tokens, one file for each: its name is the token’s hash, and the token itself is stored nowhere. Every call reads the
 * file again, so a revoked token ends at once.
 */
export class Handles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Returns a new token. */
  async create(grant: Omit<SandboxGrant, 'createdAt'>): Promise<string> {
    const token = `sksb_${randomBytes(32).toString('base64url')}`
    const { sandboxId, name, scope } = grant
    const stored: SandboxGrant = { sandboxId, name, scope, createdAt: new Date().toISOString() }
    await writeFile(this.#file(token), `${JSON.stringify(stored)}\n`, { mode: 0o600, flag: 'wx' })
    return token
  }

  /** Undefined: no such token, or it was revoked. */
  find(token: string): SandboxGrant | undefined {
    if (!/^sksb_[\w-]{43}$/.test(token)) return undefined
    return this.#read(this.#file(token))
  }

  /** Returns how many tokens opened this sandbox. */
  async revokeAll(sandboxId: string): Promise<number> {
    let revoked = 0
    for (const name of await readdir(this.#folder)) {
      const file = path.join(this.#folder, name)
      if (this.#read(file)?.sandboxId !== sandboxId) continue
      await rm(file, { force: true })
      revoked += 1
    }
    return revoked
  }

  /** Each call reads one small file. Synchronously this takes a tenth of the time: it needs no other thread. */
  #read(file: string): SandboxGrant | undefined {
    try {
      return JSON.parse(readFileSync(file, 'utf8'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return undefined
      throw error
    }
  }

  #file(token: string): string {
    return path.join(this.#folder, `${createHash('sha256').update(token).digest('hex')}.json`)
  }
}

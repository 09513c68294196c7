import { SandboxError } from '@sandkasten/sdk'
import { databaseError } from '../errors.ts'
import { decrypt, encrypt, keyIdOf, type Place, unreadable } from './cipher.ts'
import { leaveMemoryOutOfCores } from './core-files.ts'
import { type Key, newKey } from './key.ts'
import { isStaleKey } from './key-guard.ts'
import { type KeySource, keyVariable, oldKeyVariable } from './key-source.ts'
import type { EraseDue, LockedValues, SealedValues } from './sealed-values.ts'

/**
 * The database's fact `key_id` says which key is in use. It follows from the key, so it also tells a wrong key. Every
 * stored value is encrypted with that key: the database refuses others (`key-guard.ts`).
 *
 * A rotation with a key file. Each step may be the last one of a process:
 *
 *     file [old]        key_id old
 *     file [old, new]   key_id old     an unused key
 *     file [old, new]   key_id new     one transaction has replaced all values
 *     file [new]        key_id new
 *
 * The file changes only in transactions of `exclusively`, so no process removes a key that another one is introducing.
 */
export class SealedSecrets {
  readonly #values: SealedValues
  readonly #source: KeySource
  readonly #keys = new Map<string, Key>()

  private constructor(values: SealedValues, source: KeySource) {
    this.#values = values
    this.#source = source
  }

  /** Throws `unauthenticated` if the database has encrypted values, and the key is missing or another one. */
  static async open(values: SealedValues, source: KeySource): Promise<SealedSecrets> {
    leaveMemoryOutOfCores()
    await values.protect()
    const secrets = new SealedSecrets(values, source)
    if (!(await secrets.#currentKey())) return secrets
    // A rotation was interrupted, or runs in another process; then this waits for it.
    if (source.save && source.load().length > 1) await secrets.#dropOldKeys()
    // A process could not erase what it replaced.
    await secrets.#erase({ tries: 1 })
    return secrets
  }

  /** `place` is authenticated: a value that is moved to another row does not open. */
  async seal(text: string, place: Place): Promise<string> {
    const key = (await this.#currentKey()) ?? (await this.#firstKey())
    return encrypt(text, key, place)
  }

  async open(sealed: string, place: Place): Promise<string> {
    const key = this.#known(keyIdOf(sealed, place))
    if (key) return decrypt(sealed, key, place)
    // The key was rotated and the old one dropped after the caller had read the value.
    const newer = await this.#values.read(place)
    const newerKey = newer !== null && newer !== sealed && this.#known(keyIdOf(newer, place))
    if (!newerKey) throw unreadable(place)
    return decrypt(newer, newerKey, place)
  }

  /**
   * Runs `work`, which seals values and writes them. The database refuses a value whose key was rotated in between; then
   * `work` runs again.
   */
  async storing<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work()
      } catch (error) {
        if (!isStaleKey(error)) throw error
        if (tries === mostTries)
          throw new SandboxError('unavailable', 'The key was rotated while a value was stored.', {
            cause: error,
          })
      }
    }
  }

  /** Encrypts everything with a new key. Older versions of the values are removed from the database's files. */
  async rotate(): Promise<{ keyId: string; values: number }> {
    const { save } = this.#source
    return this.replacing('everywhere', async () => {
      const done = await this.#values
        .exclusively((values) => (save ? this.#rotateFile(values, save) : this.#rotateVariables(values)))
        .catch(async (error: unknown) => {
          await this.#dropOldKeys().catch(() => {})
          throw error
        })
      // The rotation is done. If the old key cannot be dropped now, the next process drops it.
      await this.#dropOldKeys().catch(ignorePassing)
      return done
    })
  }

  /**
   * Runs `work`, which replaces or removes values, and then removes earlier versions from the database's files. If another
   * process reads the database for a long time, or the disk is full, the next process that opens the values does that.
   */
  async replacing<T>(what: EraseDue, work: () => Promise<T>): Promise<T> {
    // Written first, because this process may die after the work.
    await this.#values.markErase(what)
    const done = await work()
    await this.#erase({ tries: 20 })
    return done
  }

  async #erase({ tries }: { tries: number }): Promise<void> {
    try {
      const due = await this.#values.eraseDue()
      if (due === undefined) return
      for (let round = 0; round < tries; round += 1) {
        if (round > 0) await new Promise((resolve) => setTimeout(resolve, 25))
        if (await this.#values.eraseOld({ everywhere: due === 'everywhere' }))
          return await this.#values.clearErase()
      }
    } catch (error) {
      ignorePassing(error)
    }
  }

  async #rotateFile(values: LockedValues, save: NonNullable<KeySource['save']>) {
    const keyId = await values.keyId()
    const next = newKey()
    if (keyId === undefined) {
      save([next])
      await values.setKeyId(next.id)
      return { keyId: next.id, values: 0 }
    }
    const old = this.#key(keyId)
    save([old, next])
    return this.#reencrypt(values, old, next)
  }

  async #rotateVariables(values: LockedValues) {
    const [next, old] = this.#source.load()
    const keyId = await values.keyId()
    if (!next || !old)
      throw new SandboxError('invalid_argument', `A new key is needed: the key comes from ${keyVariable}.`, {
        hint: `Set ${oldKeyVariable} to the present key and ${keyVariable} to a new one (openssl rand -base64 32), for every process that uses this database. Then rotate. Then unset ${oldKeyVariable}.`,
      })
    if (keyId === undefined || keyId === next.id) {
      await values.setKeyId(next.id)
      return { keyId: next.id, values: 0 }
    }
    return this.#reencrypt(values, this.#key(keyId), next)
  }

  async #reencrypt(values: LockedValues, old: Key, next: Key) {
    await values.setKeyId(next.id)
    const count = await values.replaceAll((sealed, place) => {
      if (keyIdOf(sealed, place) !== old.id) throw unreadable(place)
      return encrypt(decrypt(sealed, old, place), next, place)
    })
    return { keyId: next.id, values: count }
  }

  /** Chooses the key of a new database. Processes that do it at once agree, because one waits for the other. */
  #firstKey(): Promise<Key> {
    return this.#values.exclusively(async (values) => {
      const chosen = await values.keyId()
      if (chosen !== undefined) return this.#key(chosen)
      const [first = newKey()] = this.#source.load()
      // The file reaches the disk before the first value does.
      if (this.#source.load().length === 0) this.#source.save?.([first])
      await values.setKeyId(first.id)
      this.#keys.set(first.id, first)
      return first
    })
  }

  async #dropOldKeys(): Promise<void> {
    if (!this.#source.save) return
    await this.#values.exclusively(async (values) => {
      const keyId = await values.keyId()
      const keys = this.#source.load()
      const current = keys.find(({ id }) => id === keyId)
      if (current && keys.length > 1) this.#source.save?.([current])
    })
  }

  /** Loads the keys again if this one is unknown. */
  #known(keyId: string): Key | undefined {
    if (!this.#keys.has(keyId)) for (const key of this.#source.load()) this.#keys.set(key.id, key)
    return this.#keys.get(keyId)
  }

  /** The key that the database uses now; undefined if it has no encrypted value yet. */
  async #currentKey(): Promise<Key | undefined> {
    for (let seen: string | undefined; ; ) {
      const keyId = await this.#values.keyId()
      if (keyId === undefined) return undefined
      // Seen twice: it is not just that a rotation has dropped it in between.
      if (keyId === seen || this.#known(keyId)) return this.#key(keyId)
      seen = keyId
    }
  }

  #key(keyId: string): Key {
    const key = this.#known(keyId)
    if (key) return key
    const { name, save } = this.#source
    if (this.#source.load().length === 0)
      throw new SandboxError(
        'unauthenticated',
        `The key of this database is missing: there is no ${name.replace(/^the /, '')}.`,
        {
          hint: `Restore the file from a backup, or copy it from the machine that made the database. Or set ${keyVariable} to the key.`,
          details: { keyId },
        },
      )
    throw new SandboxError(
      'unauthenticated',
      `The key does not fit this database: it is not the one of ${name}.`,
      {
        hint: save
          ? `Restore the file that belongs to this database, or set ${keyVariable} to its key.`
          : `Set ${keyVariable} to the key of this database. During a rotation, ${oldKeyVariable} has the earlier one.`,
        details: { keyId },
      },
    )
  }
}

/** What was done stays done if the database is locked or the disk is full just afterwards. Other errors are thrown. */
function ignorePassing(error: unknown): void {
  const known = databaseError(error)
  const isFull = (error as { code?: unknown } | undefined)?.code === 'ENOSPC'
  if (!isFull && !SandboxError.is(known, 'unavailable', 'disk_full')) throw error
}

const mostTries = 5

import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { type SealedSecrets, unreadable } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'
import type { SecretSubject } from '@sandkasten/sdk/auto'
import { checkSecretValue, isSecretName } from '@sandkasten/sdk/provider'
import { labels, type Secrets } from '../context.ts'
import type { SecretChange, SecretOptions, StoredSecret, SandboxSecrets as Written } from '../registry.ts'
import { scopeColumns } from '../scope.ts'
import type { Sandboxes, ScopeKey, SecretFacts, SecretRow, SecretRows } from '../store/index.ts'
import type { Scope } from '../types.ts'

export interface StoredSecretsOptions {
  readonly rows: SecretRows
  readonly sandboxes: Sandboxes
  readonly secrets: Secrets & Pick<SealedSecrets, 'replacing'>
  readonly registryId: string
  readonly now: () => number
}

/** Of one scope. */
const mostSecrets = 200
const mostTries = 5

/**
 * Secrets of scopes: written by callers, and read only for providers. The text that is sealed has the scope and the name,
 * so that a value that was moved to another row does not open there.
 */
export class StoredSecrets implements Written {
  readonly #options: StoredSecretsOptions
  readonly #scope = new AsyncLocalStorage<ScopeKey>()
  /** Gives the sandboxes of the scope the present value. */
  onChange: (scope: ScopeKey, name: string) => Promise<SecretChange> = async () => ({
    sandboxes: [],
    failed: [],
  })

  constructor(options: StoredSecretsOptions) {
    this.#options = options
  }

  async list(scope: Scope = {}): Promise<StoredSecret[]> {
    return (await this.#options.rows.list(scopeColumns(scope))).map(shown)
  }

  async put(
    name: string,
    value: string,
    { scope }: SecretOptions = {},
  ): Promise<StoredSecret & SecretChange> {
    const columns = scopeColumns(scope)
    checkName(name)
    checkSecretValue(value, `The value of the secret “${name}”`)
    const facts = await this.#options.secrets.replacing('log', () => this.#write(columns, name, value))
    return { ...shown(facts), ...(await this.onChange(columns, name)) }
  }

  async delete(
    name: string,
    { scope }: SecretOptions = {},
  ): Promise<SecretChange & { readonly existed: boolean }> {
    const columns = scopeColumns(scope)
    const { rows, secrets } = this.#options
    const existed = isSecretName(name) && (await secrets.replacing('log', () => rows.delete(columns, name)))
    if (!existed) return { existed, sandboxes: [], failed: [] }
    return { existed, ...(await this.onChange(columns, name)) }
  }

  /** The value, for a provider. Without a subject, for the sandbox that `within` is about. */
  readonly valueOf = async (name: string, about?: SecretSubject): Promise<string | undefined> => {
    const scope = about ? await this.#scopeOf(about) : this.#scope.getStore()
    const row = scope && isSecretName(name) ? await this.#options.rows.find(scope, name) : undefined
    return row && this.#open(row)
  }

  /** Runs work whose requests of providers are for a sandbox of this scope. */
  within<T>({ app_id, guild_id }: ScopeKey, work: () => Promise<T>): Promise<T> {
    return this.#scope.run({ app_id, guild_id }, work)
  }

  /** The scope of the sandbox with these labels. Those of another registry have none. */
  async #scopeOf({ labels: given }: SecretSubject): Promise<ScopeKey | undefined> {
    const { registryId, sandboxes } = this.#options
    const id = given[labels.sandbox]
    if (given[labels.registry] !== registryId || id === undefined) return undefined
    const row = await sandboxes.byId(id)
    return row?.live === 1 ? row : undefined
  }

  async #write({ app_id, guild_id }: ScopeKey, name: string, value: string): Promise<SecretFacts> {
    const { rows, secrets, now } = this.#options
    for (let tries = 1; ; tries += 1) {
      const earlier = await rows.find({ app_id, guild_id }, name)
      const id = earlier?.id ?? randomUUID()
      try {
        return await secrets.storing(async () => {
          const text = JSON.stringify({ app_id, guild_id, name, value } satisfies Sealed)
          const sealed = await secrets.seal(text, placeOf(id))
          const at = now()
          return rows.put(
            { id, app_id, guild_id, secret: name, sealed, created_at: at, updated_at: at },
            mostSecrets,
          )
        })
      } catch (error) {
        if (!SandboxError.is(error, 'conflict') || tries === mostTries) throw error
      }
    }
  }

  async #open({ id, app_id, guild_id, secret, sealed }: SecretRow): Promise<string> {
    const text = JSON.parse(await this.#options.secrets.open(sealed, placeOf(id))) as Sealed
    if (text.app_id !== app_id || text.guild_id !== guild_id || text.name !== secret)
      throw unreadable(placeOf(id))
    return text.value
  }
}

interface Sealed extends ScopeKey {
  readonly name: string
  readonly value: string
}

function shown({ secret, version, created_at, updated_at }: SecretFacts): StoredSecret {
  return { name: secret, version, createdAt: new Date(created_at), updatedAt: new Date(updated_at) }
}

function placeOf(row: string) {
  return { table: 'sandbox_secrets', column: 'sealed', row } as const
}

function checkName(name: unknown): void {
  if (isSecretName(name)) return
  throw new SandboxError('invalid_argument', 'The name of the secret is invalid.', {
    hint: 'Use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.',
  })
}

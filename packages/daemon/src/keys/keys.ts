import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { looksLikeToken } from '../config/index.ts'
import type { KeyRow, ProjectRow, Store } from '../store/index.ts'
import { KeyWatch } from './key-watch.ts'
import { includes, type Scope, scopes } from './scopes.ts'
import { hashOf, newKey, sameHash } from './secret.ts'
import type { TokenCallers } from './tokens/token-callers.ts'

/** The authenticated caller of a request. */
export interface Caller {
  readonly projectId: string
  readonly keyId: string
  readonly scopes: readonly Scope[]
  readonly requestId: string
  /** The project's quotas as JSON. Undefined when they were not looked up. */
  readonly quotas?: string | null
  /** The project's policy as JSON. Undefined when it was not looked up. */
  readonly policy?: string | null
  /** The subject of the caller's token. Callers with a key have none. */
  readonly subject?: string
  /** Set when the caller sent a token. It has no row, unless `lastingId` wrote one. */
  readonly token?: { readonly expiresAt: number; stillValid(): Promise<boolean> }
}

/** The project of the operator's keys. Its admins may create projects and read metrics of the whole daemon. */
export const operatorProject = 'default'

export function isOperator(caller: Caller): boolean {
  return caller.projectId === operatorProject && includes(caller.scopes, 'admin')
}

/** The most usable keys of a project. */
export const mostKeys = 1000

/** The most tokens of a project that may have derived access at the same time. */
const mostGrants = 1000

export type NewKey = { row: KeyRow; key: string }

export class KeyRing {
  readonly #store: Store
  readonly #tokens: TokenCallers | undefined
  /** Ends long responses when their key or token is no longer valid. */
  readonly watch = new KeyWatch(async ({ projectId, keyId, requestId, token }) =>
    token ? token.stillValid() : (await this.callerOf(projectId, keyId, requestId)) !== undefined,
  )

  constructor(store: Store, tokens?: TokenCallers) {
    this.#store = store
    this.#tokens = tokens
  }

  /** Throws the same error for a missing, wrong, expired or revoked key, and for a token that is not ours. */
  async authenticate(header: string | undefined, requestId: string): Promise<Caller> {
    const given = /^bearer +([!-~]{1,8192})$/i.exec(header ?? '')?.[1]
    if (given !== undefined && this.#tokens && looksLikeToken(given)) {
      const caller = await this.#tokens.callerOf(given, requestId)
      if (caller) return caller
      throw noKey()
    }
    const hash = hashOf(given ?? '')
    const row =
      given === undefined || given.length > mostKeyChars ? undefined : await this.#store.keys.byHash(hash)
    if (
      !row ||
      !sameHash(row.hash, hash) ||
      row.revoked_at !== null ||
      (row.expires_at ?? Infinity) <= Date.now()
    )
      throw noKey()
    const { project_id: projectId, id: keyId, quotas, policy } = row
    return { projectId, keyId, scopes: scopesOf(row), requestId, quotas, policy }
  }

  /** Whether the header carries a token, of any issuer. */
  isToken(header: string): boolean {
    return this.#tokens !== undefined && looksLikeToken(header.replace(/^bearer +/i, ''))
  }

  /** Whether the text is a key of any project or a token for this daemon, valid or not. */
  async isKey(text: string): Promise<boolean> {
    if (this.#tokens && looksLikeToken(text)) return this.#tokens.isOurs(text)
    return /^[!-~]{8,512}$/.test(text) && (await this.#store.keys.byHash(hashOf(text))) !== undefined
  }

  /** The caller for a key of the project; undefined when the key is revoked or expired. */
  async callerOf(projectId: string, keyId: string, requestId: string): Promise<Caller | undefined> {
    const row = await this.#store.keys.get(projectId, keyId)
    if (!row || row.revoked_at !== null || (row.expires_at ?? Infinity) <= Date.now()) return undefined
    return { projectId, keyId, scopes: scopesOf(row), requestId, subject: row.subject ?? undefined }
  }

  /**
   * An id for which `callerOf` finds the caller later. Use it for access that a front derives from a key. A token gets a
   * row for this, which ends with the token.
   */
  async lastingId({ projectId, keyId, scopes: held, subject, token }: Caller): Promise<string> {
    if (!token) return keyId
    const row = {
      id: keyId,
      project_id: projectId,
      name: 'token',
      scopes: held.join(' '),
      created_at: Date.now(),
      expires_at: token.expiresAt,
      revoked_at: null,
      subject: subject ?? null,
    }
    if (await this.#store.keys.insertGrant(row, mostGrants)) return keyId
    throw new SandboxError('quota_exceeded', `${mostGrants} tokens of the project are in use.`, {
      details: { limit: mostGrants },
      hint: 'Try again after some of them have expired.',
    })
  }

  /** The ids of all keys, and of tokens with derived access, that are valid now. */
  usableIds(projectId: string): Promise<string[]> {
    return this.#store.keys.usableIds(projectId, Date.now())
  }

  async create(
    projectId: string,
    options: { name: string; scopes: readonly Scope[]; expiresAt?: number },
  ): Promise<NewKey> {
    if (!(await this.#store.keys.project(projectId))) throw noProject(projectId)
    const key = newKey()
    const row: KeyRow = {
      id: randomId(),
      project_id: projectId,
      name: options.name,
      hash: hashOf(key),
      scopes: options.scopes.join(' '),
      created_at: Date.now(),
      expires_at: options.expiresAt ?? null,
      revoked_at: null,
      subject: null,
    }
    const inserted = await this.#store.keys.insert(row, mostKeys)
    if (!inserted)
      throw new SandboxError('quota_exceeded', `The project already has ${mostKeys} keys.`, {
        details: { limit: mostKeys },
        hint: 'Revoke keys that are not needed.',
      })
    return { row, key }
  }

  list(projectId: string): Promise<KeyRow[]> {
    return this.#store.keys.list(projectId)
  }

  /** Revokes the key for all following requests, and ends its long responses. False when it was already revoked. */
  async revoke(projectId: string, id: string): Promise<boolean> {
    if (await this.#store.keys.revoke(projectId, id, Date.now())) {
      await this.watch.look()
      return true
    }
    if (await this.#store.keys.get(projectId, id)) return false
    throw new SandboxError('not_found', `There is no key ${id}.`, {
      hint: { sdk: 'Check the id.', http: 'See GET /v1/keys.', cli: 'See sandkasten keys list.' },
    })
  }

  projects(): Promise<ProjectRow[]> {
    return this.#store.keys.projects()
  }

  async createProject(name: string, quotas: string | null): Promise<ProjectRow> {
    if ((await this.#store.keys.projects()).some((project) => project.name === name))
      throw new SandboxError('conflict', `A project with the name “${name}” already exists.`, {
        hint: 'Choose another name.',
      })
    const row = { id: randomId(), name, quotas, policy: null, created_at: Date.now(), turn: 0 }
    await this.#store.keys.insertProject(row)
    return row
  }

  async project(projectId: string): Promise<ProjectRow> {
    const row = await this.#store.keys.project(projectId)
    if (!row) throw noProject(projectId)
    return row
  }

  /** Applies from the next create, start or fork on. */
  async setPolicy(projectId: string, policy: string | null): Promise<ProjectRow> {
    if (!(await this.#store.keys.setPolicy(projectId, policy))) throw noProject(projectId)
    return this.project(projectId)
  }

  async setQuotas(projectId: string, quotas: string | null): Promise<ProjectRow> {
    if (!(await this.#store.keys.setQuotas(projectId, quotas))) throw noProject(projectId)
    return (await this.#store.keys.project(projectId))!
  }

  /** Creates the operator's project and its first admin key: the configured key, or a new one at the first start. */
  async prepare(configured: string | undefined): Promise<{ firstKey?: string }> {
    const now = Date.now()
    await this.#store.keys.ensureProject({
      id: operatorProject,
      name: operatorProject,
      quotas: null,
      policy: null,
      created_at: now,
      turn: 0,
    })
    if (configured !== undefined) {
      await this.#keepFileKey('config', 'api_key of the configuration', configured)
      return {}
    }
    await this.#store.keys.revoke(operatorProject, 'config', now)
    const usable = (await this.list(operatorProject)).some(
      (row) => row.revoked_at === null && includes(scopesOf(row), 'admin') && row.id !== 'cli',
    )
    if (usable) return {}
    return { firstKey: (await this.create(operatorProject, { name: 'first', scopes: ['admin'] })).key }
  }

  /** Returns the key for this machine's command line. Creates a new one when the kept key is not valid. */
  async commandLineKey(kept: string | undefined): Promise<string> {
    const row = await this.#store.keys.get(operatorProject, 'cli')
    if (kept !== undefined && row && row.revoked_at === null && sameHash(row.hash, hashOf(kept))) return kept
    const key = newKey()
    await this.#keepFileKey('cli', 'the command line of this machine', key)
    return key
  }

  async #keepFileKey(id: string, name: string, key: string): Promise<void> {
    await this.#store.keys.upsert({
      id,
      project_id: operatorProject,
      name,
      hash: hashOf(key),
      scopes: 'admin',
      created_at: Date.now(),
      expires_at: null,
      revoked_at: null,
      subject: null,
    })
  }
}

const mostKeyChars = 512

function noKey(): SandboxError {
  return new SandboxError('unauthenticated', 'This needs a valid API key.', {
    hint: {
      sdk: 'Pass a valid apiKey (SANDKASTEN_API_KEY). The first start printed one; `sandkasten keys create` makes others.',
      http: 'Send the header “Authorization: Bearer <key>”. The first start printed one; `sandkasten keys create` makes others.',
      cli: 'Set SANDKASTEN_API_KEY to a valid key; sandkasten keys create makes one, on the machine of the daemon.',
    },
  })
}

export function scopesOf(row: KeyRow): Scope[] {
  return row.scopes
    .split(' ')
    .filter((scope): scope is Scope => (scopes as readonly string[]).includes(scope))
}

function noProject(id: string): SandboxError {
  return new SandboxError('not_found', `There is no project ${id}.`, {
    hint: { sdk: 'Check the id.', http: 'See GET /v1/projects.', cli: 'See sandkasten projects list.' },
  })
}

import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { JwtConfig } from '../../config/index.ts'
import type { ProjectRow, Store } from '../../store/index.ts'
import { type Caller, operatorProject } from '../keys.ts'
import type { TokenClaims } from './claims.ts'
import type { TokenVerifier } from './token-verifier.ts'

/** Turns verified tokens into callers: finds the project that a token names. */
export class TokenCallers {
  readonly #store: Store
  readonly #verifier: TokenVerifier
  readonly #config: JwtConfig

  constructor(store: Store, verifier: TokenVerifier, config: JwtConfig) {
    this.#store = store
    this.#verifier = verifier
    this.#config = config
  }

  /** Undefined for a token that is not ours. Throws when it is ours and cannot be used. */
  async callerOf(token: string, requestId: string): Promise<Caller | undefined> {
    const claims = await this.#verifier.verify(token)
    if (!claims) return undefined
    const { id: projectId, quotas, policy } = await this.#project(claims)
    return {
      projectId,
      keyId: claims.id,
      scopes: claims.scopes,
      requestId,
      quotas,
      policy,
      subject: claims.subject,
      token: { expiresAt: claims.expiresAt, stillValid: () => this.#isValid(token) },
    }
  }

  isOurs(token: string): Promise<boolean> {
    return this.#verifier.isOurs(token)
  }

  /** False also when the signing key was removed. While keys cannot be read, only the token's end counts. */
  async #isValid(token: string): Promise<boolean> {
    try {
      return (await this.#verifier.verify(token)) !== undefined
    } catch (error) {
      if (SandboxError.is(error, 'unauthenticated')) return false
      throw error
    }
  }

  async #project({ project: name, scopes }: TokenClaims): Promise<ProjectRow> {
    const { create_projects, allow_operator, project_claim } = this.#config
    const known = await this.#store.keys.projectNamed(name)
    if (known?.id === operatorProject && !allow_operator)
      throw new SandboxError('forbidden', `Tokens cannot use the project “${name}”.`, {
        hint: 'Use another project, or set jwt.allow_operator on the daemon.',
      })
    if (known) return known
    if (create_projects && scopes.length > 0)
      return this.#store.keys.ensureProjectNamed({
        id: randomId(),
        name,
        quotas: null,
        policy: null,
        created_at: Date.now(),
        turn: 0,
      })
    throw new SandboxError(
      'forbidden',
      `There is no project “${name}”, which the token names in “${project_claim}”.`,
      {
        hint: {
          sdk: 'Ask the operator to create the project.',
          http: 'Ask the operator to create it with POST /v1/projects, or to set jwt.create_projects.',
          cli: 'Ask the operator to create it with sandkasten projects create, or to set jwt.create_projects.',
        },
      },
    )
  }
}

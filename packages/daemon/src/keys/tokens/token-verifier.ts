import { SandboxError } from '@sandkasten/sdk'
import { decodeJwt, errors, type JWTPayload, type JWTVerifyOptions } from 'jose'
import type { JwtConfig } from '../../config/index.ts'
import type { Log } from '../../log.ts'
import { claimsOf, type TokenClaims } from './claims.ts'
import { readKeys } from './key-set.ts'
import { KeySource } from './key-source.ts'

/** Longer tokens are refused before they are parsed. */
export const maxTokenBytes = 8192

/** Verifies tokens (JWT) of the configured issuer. */
export class TokenVerifier {
  readonly #config: JwtConfig
  readonly #keys: KeySource
  readonly #options: JWTVerifyOptions

  constructor(config: JwtConfig, keys: KeySource) {
    this.#config = config
    this.#keys = keys
    const { issuer, audience } = config
    this.#options = {
      algorithms: isSecret(config) ? ['HS256'] : config.algorithms,
      issuer,
      audience,
      clockTolerance: config.clock_tolerance_seconds,
      maxTokenAge: config.max_age_seconds,
      requiredClaims: ['exp'],
    }
  }

  /** A key file that cannot be used fails here. A URL that does not answer only delays requests with tokens. */
  static async open(config: JwtConfig, log: Log): Promise<TokenVerifier> {
    if (config.jwks_url === undefined) await readFirst(config)
    const keys = new KeySource({
      read: (ending) => readKeys(config, ending),
      // A file costs nothing to read, so a changed one is noticed sooner.
      refreshMs:
        (config.jwks_url === undefined ? config.jwks_cooldown_seconds : config.jwks_refresh_seconds) * 1000,
      cooldownMs: config.jwks_cooldown_seconds * 1000,
      maxStaleMs: config.jwks_max_stale_seconds * 1000,
      log,
    })
    const first = keys.start()
    if (config.jwks_url === undefined) await first
    return new TokenVerifier(config, keys)
  }

  close(): void {
    this.#keys.close()
  }

  get keyAgeSeconds(): number | undefined {
    return this.#keys.ageSeconds
  }

  /** Throws `unauthenticated`, or `unavailable` when the keys cannot be read. Undefined: not a valid token of ours. */
  async verify(token: string): Promise<TokenClaims | undefined> {
    const arrivedAt = performance.now()
    if (!this.#mayBeOurs(token)) return undefined
    try {
      return claimsOf(await this.#signed(token, arrivedAt), this.#config)
    } catch (error) {
      if (SandboxError.is(error)) throw error
      const reason = reasonOf(error)
      if (reason === undefined) return undefined
      throw new SandboxError('unauthenticated', reason, { hint: 'Ask the issuer for another token.' })
    }
  }

  /** Whether the text is a token for this daemon, valid or not. Such a token must not be passed to a sandbox. */
  async isOurs(token: string): Promise<boolean> {
    if (!this.#mayBeOurs(token)) return false
    const payload = decoded(token)
    const { issuer, audience } = this.#config
    if (issuer !== undefined && audience !== undefined) return [payload?.aud].flat().includes(audience)
    // Only a secret can lack an issuer or an audience. A far tolerance ignores times.
    const options = { algorithms: this.#options.algorithms, clockTolerance: Number.MAX_SAFE_INTEGER }
    const keys = await this.#keys.current().catch(() => undefined)
    if (!keys) return true
    return keys.verify(token, options).then(
      () => true,
      () => false,
    )
  }

  async #signed(token: string, arrivedAt: number): Promise<JWTPayload> {
    let keys = await this.#keys.current()
    for (;;) {
      try {
        return await keys.verify(token, this.#options)
      } catch (error) {
        // Keys that were read after the request arrived decide. Earlier ones may lack a new key.
        if (!(error instanceof errors.JWKSNoMatchingKey) || keys.beganAt >= arrivedAt) throw error
      }
      keys = await this.#keys.newerThan(keys)
    }
  }

  /** Compares the issuer, unverified. */
  #mayBeOurs(token: string): boolean {
    if (token.length > maxTokenBytes) return false
    const payload = decoded(token)
    return payload !== undefined && (this.#config.issuer === undefined || payload.iss === this.#config.issuer)
  }
}

function isSecret({ secret, secret_file }: JwtConfig): boolean {
  return secret !== undefined || secret_file !== undefined
}

async function readFirst(config: JwtConfig): Promise<void> {
  try {
    await readKeys(config, new AbortController().signal)
  } catch (cause) {
    if (SandboxError.is(cause, 'invalid_argument')) throw cause
    const file = config.secret_file ?? config.jwks_file
    throw new SandboxError('invalid_argument', `jwt: the keys in ${file} cannot be read.`, {
      cause,
      hint: 'Check the path, its permissions and its content.',
    })
  }
}

/** Why a token with a valid signature is refused. Undefined for all others. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof errors.JWTExpired) return 'The token has expired.'
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.claim === 'nbf'
      ? 'The token is not valid yet.'
      : `The claim “${error.claim}” of the token is ${error.reason === 'missing' ? 'missing' : 'not accepted here'}.`
  return undefined
}

function decoded(token: string): JWTPayload | undefined {
  try {
    return decodeJwt(token)
  } catch {
    return undefined
  }
}

import { SandboxError } from '@sandkasten/sdk'
import type { JWTPayload } from 'jose'
import type { JwtConfig } from '../../config/index.ts'
import { type Scope, scopes } from '../scopes.ts'
import { hashOf } from '../secret.ts'

/** The claims of a verified token. */
export interface TokenClaims {
  /** Identifies the token in the audit log. Tokens with equal claims have the same id. */
  readonly id: string
  /** The name of the project. */
  readonly project: string
  readonly subject?: string
  readonly scopes: readonly Scope[]
  readonly expiresAt: number
}

const maxChars = 200

export function claimsOf(payload: JWTPayload, config: JwtConfig): TokenClaims {
  const project = textOf(payload, config.project_claim)
  if (project === undefined) throw unusable(`The token has no claim “${config.project_claim}”.`)
  const subject = textOf(payload, config.subject_claim)
  const held = scopesOf(payload, config)
  const { exp = 0, iat = 0, jti = '' } = payload
  const facts = [project, subject ?? null, held.join(' '), exp, iat, jti]
  return {
    id: `t${hashOf(JSON.stringify(facts)).slice(0, 24)}`,
    project,
    subject,
    scopes: held,
    expiresAt: (Math.min(exp, iat + config.max_age_seconds) + config.clock_tolerance_seconds) * 1000,
  }
}

function textOf(payload: JWTPayload, name: string): string | undefined {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string' && value.length <= maxChars && /^\P{Cc}+$/u.test(value)) return value
  throw unusable(`The claim “${name}” of the token is not a text of 1 to ${maxChars} printable characters.`)
}

/** A list, or text with spaces as in OAuth. Scopes of other services are ignored. */
function scopesOf(payload: JWTPayload, { scopes_claim: name, default_scope: byDefault }: JwtConfig): Scope[] {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (value === undefined || value === null) return byDefault ? [byDefault] : []
  const words = typeof value === 'string' ? value.split(' ') : value
  if (!Array.isArray(words)) throw unusable(`The claim “${name}” of the token is not a list or a text.`)
  return scopes.filter((scope) => words.includes(scope))
}

function unusable(message: string): SandboxError {
  return new SandboxError('unauthenticated', message, { hint: 'Ask the issuer for another token.' })
}

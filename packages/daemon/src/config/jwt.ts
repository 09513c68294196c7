import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { isLoopback } from './listen-address.ts'

/** Algorithms with a key pair. The configuration names them; the header of a token never adds one. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const

/** HS256 needs a key of at least 256 bits (RFC 7518, 3.2). */
export const minSecretBytes = 32

const claim = z
  .string()
  .min(1)
  .max(200)
  .regex(/^\P{Cc}+$/u, 'must be the name of a claim')
const seconds = z.int().positive().max(31_536_000)

/** Tokens that another service signs (JWT). They are accepted wherever an API key is. */
export const jwtSchema = z.strictObject({
  secret: z
    .string()
    .max(4096)
    .refine((text) => Buffer.byteLength(text) >= minSecretBytes, `must have ${minSecretBytes} bytes or more`)
    .optional()
    .describe('HS256. Prefer secret_file, or the environment variable.'),
  secret_file: z.string().min(1).optional().describe('HS256. One secret per line; each is accepted.'),
  jwks_file: z.string().min(1).optional().describe('Public keys as a JSON Web Key Set.'),
  jwks_url: z
    .string()
    .max(2048)
    .refine(isSafeUrl, 'must be an https URL, or http on this machine, without a user name')
    .optional()
    .describe('The same, read from a URL and kept up to date.'),
  algorithms: z
    .array(z.enum(algorithms))
    .min(1)
    .default(['RS256', 'ES256'])
    .describe('For jwks_file and jwks_url. A secret always means HS256.'),
  issuer: z.string().min(1).max(2048).optional().describe('Required with a key set.'),
  audience: z.string().min(1).max(2048).optional().describe('Required with a key set.'),
  clock_tolerance_seconds: z.int().nonnegative().max(600).default(30),
  max_age_seconds: seconds.default(86_400).describe('Time since `iat` after which a token is refused.'),
  project_claim: claim.default('tenant_id').describe('The name of the project.'),
  subject_claim: claim.default('subject_id').describe('Recorded with sessions and in the audit log.'),
  scopes_claim: claim
    .default('scopes')
    .describe('`read`, `exec`, `admin`: a list, or text with spaces. Others are ignored.'),
  default_scope: z
    .enum(['read', 'exec'])
    .optional()
    .describe('For tokens without the claim. Default: such tokens may do nothing.'),
  create_projects: z.boolean().default(false).describe('Create a missing project when a token names it.'),
  allow_operator: z
    .boolean()
    .default(false)
    .describe('Accept tokens for the project `default`, whose admins are operators.'),
  jwks_refresh_seconds: z
    .int()
    .positive()
    .max(86_400)
    .default(300)
    .describe('How often a key set is read again.'),
  jwks_cooldown_seconds: z
    .int()
    .positive()
    .max(3600)
    .default(10)
    .describe('The shortest time between two reads, also when tokens name unknown keys.'),
  jwks_max_stale_seconds: seconds
    .default(86_400)
    .describe('How long keys stay valid while the key set cannot be read.'),
})

export type JwtConfig = z.infer<typeof jwtSchema>

/** Checks what depends on several keys, and makes paths absolute. */
export function jwtOf(
  given: JwtConfig | undefined,
  { base, apiKey }: { base: string; apiKey?: string },
): JwtConfig | undefined {
  if (!given) return undefined
  const { secret_file, jwks_file } = given
  const sources = (['secret', 'secret_file', 'jwks_file', 'jwks_url'] as const).filter(
    (name) => given[name] !== undefined,
  )
  if (sources.length !== 1)
    throw wrong(
      `jwt: ${sources.length === 0 ? 'no key is' : `${sources.join(' and ')} are`} given.`,
      'Give one of secret, secret_file, jwks_file and jwks_url.',
    )
  // Any application may have a token of a shared issuer, so the audience decides.
  if (sources[0]!.startsWith('jwks'))
    for (const name of ['issuer', 'audience'] as const)
      if (given[name] === undefined)
        throw wrong(`jwt.${name} is missing.`, `Set jwt.${name} to the claim of your tokens.`)
  if (apiKey !== undefined && looksLikeToken(apiKey))
    throw wrong('api_key has the form of a token.', 'Choose another api_key, or leave it out.')
  return {
    ...given,
    secret_file: secret_file && path.resolve(base, secret_file),
    jwks_file: jwks_file && path.resolve(base, jwks_file),
  }
}

/** Three parts of base64url. The first is a JSON object, so it begins with `ey`. API keys never look like this. */
export function looksLikeToken(text: string): boolean {
  return text.startsWith('ey') && /^[\w-]+\.[\w-]+\.[\w-]*$/.test(text)
}

function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, username, password } = new URL(text)
  if (username !== '' || password !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname.replace(/^\[|\]$/g, '')))
}

function wrong(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}

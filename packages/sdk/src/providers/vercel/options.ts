import type { SecretSource } from '../../core/network/secret-values.ts'
import { SandboxError } from '../../errors.ts'

export interface VercelProviderOptions {
  /** A token of the account, together with `teamId` and `projectId`. Never read from the environment. */
  token?: string
  teamId?: string
  projectId?: string
  /**
   * Replaces the other three: the token that Vercel gives a project (`vercel env pull`), which contains team and project. It
   * is valid for twelve hours, and is never exchanged for another. A function is called for each request to Vercel, such as
   * `vercelRequestToken` or `getVercelOidcToken` of `@vercel/oidc`. All its tokens must belong to one project.
   */
  oidcToken?: string | OidcTokenSource
  /** An API compatible with Vercel's, such as a daemon's front. Default: Vercel's own. */
  baseUrl?: string
  /** Default: the global `fetch`. */
  fetch?: typeof globalThis.fetch
  /** The values of secrets in network policies. Vercel stores them with the policy. */
  secrets?: SecretSource
  /** The package `@vercel/sandbox`, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: unknown
  /** The prefix of our sandboxes' names; `list()` returns only these. Default `sk-`. */
  namePrefix?: string
  /** The timeout of a response. Default 60,000. */
  requestTimeoutMs?: number
  /** How long output may be silent before we check that its command still exists. Default 60,000. */
  silenceMs?: number
}

export const known: ReadonlyArray<keyof VercelProviderOptions> = [
  'token',
  'teamId',
  'projectId',
  'oidcToken',
  'baseUrl',
  'fetch',
  'secrets',
  'sdk',
  'namePrefix',
  'requestTimeoutMs',
  'silenceMs',
]

export type OidcTokenSource = () => string | undefined | Promise<string | undefined>

/** Always all three: otherwise the SDK searches elsewhere, or prompts for them. */
export interface VercelCredentials {
  token: string
  teamId: string
  projectId: string
}

/** The given credentials, or those in the OIDC token. */
export function credentialsOf(given: {
  token?: string
  teamId?: string
  projectId?: string
  oidcToken?: string
}): VercelCredentials {
  const { token, teamId, projectId, oidcToken } = given
  for (const [option, value] of Object.entries({ token, teamId, projectId, oidcToken }))
    if (value !== undefined && (typeof value !== 'string' || !/^[\x21-\x7e]{1,8192}$/.test(value)))
      throw invalid(`\`${option}\` contains characters that a header cannot carry.`, `Check ${option}.`)
  if (oidcToken !== undefined) {
    if (token !== undefined || teamId !== undefined || projectId !== undefined)
      throw invalid(
        '`oidcToken` and other credentials are both given.',
        'Pass the OIDC token alone, or token, teamId and projectId together.',
      )
    return ofOidc(oidcToken)
  }
  if (token === undefined || teamId === undefined || projectId === undefined) {
    const missing = Object.entries({ token, teamId, projectId }).filter(([, value]) => value === undefined)
    throw new SandboxError(
      'unauthenticated',
      `The provider “vercel” is missing ${missing.map(([option]) => option).join(', ')}.`,
      {
        provider: 'vercel',
        hint: 'Pass token, teamId and projectId together, or oidcToken alone (VERCEL_TOKEN, VERCEL_TEAM_ID, VERCEL_PROJECT_ID, or VERCEL_OIDC_TOKEN).',
      },
    )
  }
  return { token, teamId, projectId }
}

/** The options from the variables of Vercel's own tools. The provider itself never reads the environment. */
export function vercelOptionsOf(env: Readonly<Record<string, string | undefined>>): {
  token?: string
  teamId?: string
  projectId?: string
  oidcToken?: string
} {
  const { VERCEL_OIDC_TOKEN, VERCEL_TOKEN, VERCEL_TEAM_ID, VERCEL_PROJECT_ID } = env
  // Variables that a user set take precedence over the one that Vercel sets.
  const whole = VERCEL_TOKEN && VERCEL_TEAM_ID && VERCEL_PROJECT_ID
  if (!whole && VERCEL_OIDC_TOKEN) return { oidcToken: VERCEL_OIDC_TOKEN }
  return {
    token: VERCEL_TOKEN || undefined,
    teamId: VERCEL_TEAM_ID || undefined,
    projectId: VERCEL_PROJECT_ID || undefined,
  }
}

/**
 * The credentials of each request. Fixed ones are checked now; those of a function with each call, because every request
 * of a Vercel function has its own token.
 */
export function credentialSource(given: VercelProviderOptions): () => Promise<VercelCredentials> {
  const { token, teamId, projectId, oidcToken } = given
  if (typeof oidcToken !== 'function') {
    const fixed = credentialsOf({ token, teamId, projectId, oidcToken })
    return async () => fixed
  }
  if (token !== undefined || teamId !== undefined || projectId !== undefined)
    credentialsOf({ token, teamId, projectId, oidcToken: 'a function' })
  let first: VercelCredentials | undefined
  return async () => {
    const current = await callOf(oidcToken)
    if (!current)
      throw new SandboxError('unauthenticated', 'There is no OIDC token for this request.', {
        provider: 'vercel',
        hint: 'On Vercel, enable OIDC in the project’s settings and call within a request. Elsewhere run `vercel env pull`, or pass token, teamId and projectId.',
      })
    const credentials = credentialsOf({ oidcToken: current })
    first ??= credentials
    if (credentials.teamId === first.teamId && credentials.projectId === first.projectId) return credentials
    throw new SandboxError('forbidden', 'The OIDC token of this request belongs to another Vercel project.', {
      provider: 'vercel',
      hint: 'Use one provider for each project.',
    })
  }
}

async function callOf(oidcToken: OidcTokenSource): Promise<string | undefined> {
  try {
    return await oidcToken()
  } catch (cause) {
    throw new SandboxError('unauthenticated', 'The function `oidcToken` failed.', {
      provider: 'vercel',
      cause,
    })
  }
}

function ofOidc(token: string): VercelCredentials {
  const claims = claimsOf(token)
  const { owner_id: teamId, project_id: projectId, exp } = claims ?? {}
  if (typeof teamId !== 'string' || typeof projectId !== 'string')
    throw invalid('`oidcToken` is not a token of a Vercel project.', 'Get one with `vercel env pull`.')
  if (typeof exp === 'number' && exp * 1000 <= Date.now())
    throw new SandboxError(
      'unauthenticated',
      `The OIDC token has expired (${new Date(exp * 1000).toISOString()}).`,
      {
        provider: 'vercel',
        hint: 'Get a new one with `vercel env pull`; a token is valid for twelve hours.',
      },
    )
  return { token, teamId, projectId }
}

function claimsOf(token: string): { owner_id?: unknown; project_id?: unknown; exp?: unknown } | undefined {
  const parts = token.split('.')
  if (parts.length !== 3) return undefined
  try {
    const text = atob(parts[1]!.replaceAll('-', '+').replaceAll('_', '/'))
    const claims: unknown = JSON.parse(
      new TextDecoder().decode(Uint8Array.from(text, (char) => char.charCodeAt(0))),
    )
    return typeof claims === 'object' && claims !== null ? claims : undefined
  } catch {
    return undefined
  }
}

function invalid(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { provider: 'vercel', hint })
}

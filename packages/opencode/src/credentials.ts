import { type Environment, placeholder, type SandboxCore, SandboxError, supports } from '@sandkasten/sdk'
import type { Agent } from './agents/index.ts'

/**
 * A credential that the agent gets. Without one, none travels.
 *
 * - `{ variable }`: a variable of this process, or `value`. The agent can read it.
 * - `{ variable, secret }`: the sandbox gets a placeholder. Its network policy adds the secret of this name.
 * - `{ provider }`: an entry of `OPENCODE_AUTH_CONTENT` of this process, or `auth`; with `secret`, a placeholder.
 */
export type AgentCredential =
  | { readonly variable: string; readonly value?: string; readonly secret?: undefined }
  | { readonly variable: string; readonly secret: string }
  | {
      readonly provider: string
      readonly auth?: Readonly<Record<string, unknown>>
      readonly secret?: undefined
    }
  | { readonly provider: string; readonly secret: string }

export interface CredentialEnvironment {
  readonly env: Record<string, string>
  /** Values that must not appear in errors. */
  readonly secrets: readonly string[]
}

/** `host`: the variables of this process. */
export function credentialEnvironment(
  handle: SandboxCore,
  agent: Agent,
  credentials: readonly AgentCredential[],
  host: Environment,
): CredentialEnvironment {
  const env: Record<string, string> = {}
  const auth: Record<string, unknown> = {}
  const secrets: string[] = []
  for (const one of credentials) {
    const { secret } = one
    if (secret !== undefined) checkBrokered(handle, secret)
    if ('variable' in one) {
      const value = secret === undefined ? (one.value ?? host[one.variable]) : placeholder(secret)
      if (value === undefined) throw missing(`The variable ${one.variable} is not set on this machine.`)
      env[one.variable] = value
      if (secret === undefined) secrets.push(value)
    } else if (secret !== undefined) auth[one.provider] = { type: 'api', key: placeholder(secret) }
    else {
      const value = one.auth ?? hostAuth(host)[one.provider]
      if (value === undefined) throw missing(`OPENCODE_AUTH_CONTENT has no provider “${one.provider}”.`)
      auth[one.provider] = value
      secrets.push(...Object.values(value as object).filter((text) => typeof text === 'string'))
    }
  }
  if (Object.keys(auth).length === 0) return { env, secrets }
  if (agent.authVariable === undefined)
    throw new SandboxError('unsupported', `${agent.title} takes credentials as variables only.`, {
      hint: 'Use { variable: … } instead of { provider: … }.',
    })
  return { env: { ...env, [agent.authVariable]: JSON.stringify(auth) }, secrets }
}

/** A placeholder without a policy that replaces it would fail much later, as a wrong key. */
function checkBrokered(handle: SandboxCore, secret: string): void {
  const where = { provider: handle.provider, sandboxId: handle.sandboxId }
  if (!supports(handle, 'egress'))
    throw new SandboxError(
      'unsupported',
      `The provider “${handle.provider}” cannot add secrets to requests.`,
      {
        ...where,
        details: { ability: 'egress' },
        hint: 'Use a provider with the ability `egress`, or pass the credential itself without `secret`.',
      },
    )
  const { network } = handle
  if (network === undefined) return
  const transforms = typeof network === 'object' ? (network.transform ?? []) : []
  const names = transforms.flatMap(({ headers }) =>
    Object.values(headers).flatMap((value) => (typeof value === 'string' ? [] : value.secret)),
  )
  if (!names.includes(secret))
    throw new SandboxError('invalid_argument', `The sandbox’s network adds no secret “${secret}”.`, {
      ...where,
      hint: 'Create the sandbox with network: modelNetwork({ url, secret }).',
    })
}

function hostAuth(host: Environment): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(host.OPENCODE_AUTH_CONTENT ?? '{}')
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    throw missing('OPENCODE_AUTH_CONTENT is not JSON.')
  }
}

function missing(message: string): SandboxError {
  return new SandboxError('invalid_argument', message, {
    hint: 'Set it, pass the value, or remove it from `credentials`.',
  })
}

import { SandboxError } from '@sandkasten/sdk'
import type { SecretFacts } from '../store/index.ts'

/** What callers may know of a secret. */
export interface Secret {
  readonly name: string
  readonly version: number
  /** The hosts that it may be sent to. Undefined: any host that the policy allows. */
  readonly hosts?: readonly string[]
  readonly createdAt: number
  readonly updatedAt: number
}

export const secretLimits = {
  perProject: 200,
  inlinePerProject: 5_000,
  hosts: 50,
} as const

export const secretName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/

export function secretOf({ name, version, hosts, created_at, updated_at }: SecretFacts): Secret {
  return {
    name,
    version,
    hosts: hosts === null ? undefined : JSON.parse(hosts),
    createdAt: created_at,
    updatedAt: updated_at,
  }
}

export function noSecret(name: string): SandboxError {
  return new SandboxError('not_found', `There is no secret ${JSON.stringify(name)}.`, {
    hint: {
      sdk: 'Check the name.',
      http: 'See GET /v1/secrets.',
      cli: 'See sandkasten secrets list.',
    },
  })
}

export function tooManySecrets(): SandboxError {
  const { perProject } = secretLimits
  return new SandboxError('quota_exceeded', `The project already has ${perProject} secrets.`, {
    details: { limit: perProject },
    hint: 'Delete secrets that are not needed.',
  })
}

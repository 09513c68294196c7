import { readFile } from 'node:fs/promises'
import { SandboxError } from '@sandkasten/sdk'
import { createLocalJWKSet, errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose'
import { type JwtConfig, minSecretBytes } from '../../config/index.ts'
import { fetchJson } from './fetch-json.ts'

/** Keys that were read together. Throws the errors of `jose`, `JWKSNoMatchingKey` among them. */
export type Verify = (token: string, options: JWTVerifyOptions) => Promise<JWTPayload>

const maxKeys = 100

/** Reads the configured keys once. */
export async function readKeys(config: JwtConfig, ending: AbortSignal): Promise<Verify> {
  const { secret, secret_file, jwks_file, jwks_url } = config
  if (secret !== undefined) return bySecrets([secret])
  if (secret_file !== undefined) return bySecrets(secretsIn(await readFile(secret_file, 'utf8'), secret_file))
  if (jwks_file !== undefined) return byKeySet(JSON.parse(await readFile(jwks_file, 'utf8')))
  return byKeySet(await fetchJson(jwks_url!, ending))
}

function bySecrets(secrets: readonly string[]): Verify {
  const keys = secrets.map((secret) => Buffer.from(secret))
  return async (token, options) => {
    let failure: unknown
    for (const key of keys) {
      try {
        return (await jwtVerify(token, key, options)).payload
      } catch (error) {
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error
        failure = error
      }
    }
    throw failure
  }
}

function secretsIn(text: string, file: string): string[] {
  const secrets = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (secrets.length > 0 && secrets.every((secret) => Buffer.byteLength(secret) >= minSecretBytes))
    return secrets.slice(0, maxKeys)
  throw new SandboxError(
    'invalid_argument',
    `${file} needs a secret of ${minSecretBytes} bytes or more on each line.`,
    {
      hint: 'Create one, for example with: openssl rand -hex 32',
    },
  )
}

function byKeySet(json: unknown): Verify {
  const { keys } = (typeof json === 'object' && json !== null ? json : {}) as { keys?: unknown }
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > maxKeys)
    throw new SandboxError('unavailable', `A key set needs 1 to ${maxKeys} keys in “keys”.`)
  // Secrets have no place in a key set, and would make every reader of the set an issuer.
  const usable = keys.filter((key) => typeof key === 'object' && key !== null && key.kty !== 'oct')
  const find = createLocalJWKSet({ keys: usable })
  return async (token, options) => {
    try {
      return (await jwtVerify(token, find, options)).payload
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
      // The token names no key, and several have the right type.
      for await (const key of error)
        try {
          return (await jwtVerify(token, key, options)).payload
        } catch (failed) {
          if (!(failed instanceof errors.JWSSignatureVerificationFailed)) throw failed
        }
      throw new errors.JWSSignatureVerificationFailed()
    }
  }
}

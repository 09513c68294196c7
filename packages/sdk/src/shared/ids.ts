import { SandboxError } from '../errors.ts'

/** 80 random bits in lower case letters and digits: safe in paths, host names and URLs. */
export function randomId(length = 16): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
  return Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => alphabet[byte & 31]).join('')
}

/** The provider's own id out of `provider:id` or of the bare id. */
export function nativeId(provider: string, id: unknown): string {
  if (typeof id !== 'string' || id.length === 0) {
    throw new SandboxError('invalid_argument', 'The sandbox id must be a non-empty string.', { provider })
  }
  const colon = id.indexOf(':')
  if (colon === -1) return id
  if (id.slice(0, colon) === provider) return id.slice(colon + 1)
  throw new SandboxError(
    'invalid_argument',
    `The sandbox ${id} does not belong to the provider “${provider}”.`,
    {
      provider,
      hint: `Ask the provider “${id.slice(0, colon)}” for it.`,
    },
  )
}

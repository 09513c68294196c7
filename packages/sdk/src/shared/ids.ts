import { SandboxError } from '../errors.ts'

/** 80 random bits in lower case letters and digits: safe in paths, host names and URLs. */
export function randomId(length = 16): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
  return Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => alphabet[byte & 31]).join('')
}

/** Any text as a word that can be part of a file name. */
export async function keyOf(text: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(hash, 0, 20), (byte) => byte.toString(16).padStart(2, '0')).join('')
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

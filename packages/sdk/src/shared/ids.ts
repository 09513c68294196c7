import { SandboxError } from '../errors.ts'

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
/**
 * A buffer of random bytes, refilled in bulk: a large request costs as much as a small one. No byte is used twice.
 */
const random = new Uint8Array(1024)
let used = random.length

/** 80 random bits as lower-case letters and digits: safe in paths, host names and URLs. */
export function randomId(length = 16): string {
  if (used + length > random.length) {
    crypto.getRandomValues(random)
    used = 0
  }
  let id = ''
  for (const byte of random.subarray(used, used + length)) id += alphabet[byte & 31]
  used += length
  return id
}

/** Turns any text into a key that is safe in a file name. */
export async function keyOf(text: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(hash, 0, 20), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The provider's own id, from `provider:id` or the bare id. */
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

import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'

/** A key for stored values. A `KeyObject` does not show its bytes when it is printed. */
export interface Key {
  /** 16 hexadecimal digits that follow from the key. So a wrong key is recognised, and the key cannot be inferred. */
  readonly id: string
  readonly secret: KeyObject
}

export const keyBytes = 32

export function newKey(): Key {
  return keyOf(randomBytes(keyBytes))
}

/** Parses 32 bytes in hex, base64 or base64url. `source` names the variable or the file in errors. */
export function parseKey(text: string, source: string): Key {
  const trimmed = text.trim()
  const bytes = /^[0-9a-fA-F]{64}$/.test(trimmed)
    ? Buffer.from(trimmed, 'hex')
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)
      ? Buffer.from(trimmed, 'base64')
      : undefined
  if (bytes?.length === keyBytes && new Set(bytes).size > 8) return keyOf(bytes)
  throw new SandboxError('invalid_argument', `${source} is not a key of ${keyBytes} random bytes.`, {
    hint: `Use ${keyBytes} random bytes in base64 or hex, such as the output of: openssl rand -base64 ${keyBytes}`,
  })
}

/** Base64, for the key file. */
export function textOf({ secret }: Key): string {
  return secret.export().toString('base64')
}

function keyOf(bytes: Buffer): Key {
  const id = createHmac('sha256', bytes).update('sandkasten registry key id').digest('hex').slice(0, 16)
  const secret = createSecretKey(bytes)
  bytes.fill(0)
  return { id, secret }
}

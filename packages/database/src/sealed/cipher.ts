import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { Key } from './key.ts'

/** The row and column of a value. A value that was moved to another place does not open. */
export interface Place {
  readonly table: string
  readonly column: string
  readonly row: string
}

/**
 * The text of a stored value:
 *
 *     sk1:<key id>:<base64url of nonce (12 bytes), ciphertext and tag (16 bytes)>
 *
 * AES-256-GCM. The additional data is the version, the key id and the place, so a value that is moved to another row or
 * column does not open. The nonce is random: one key may encrypt 2³² values.
 */
const version = 'sk1'
const nonceBytes = 12
const tagBytes = 16

/** The largest text of one value. The store refuses encrypted texts above 1 MiB, and lower limits for some columns. */
export const mostTextBytes = 512 * 1024

export function encrypt(text: string, key: Key, place: Place): string {
  const bytes = Buffer.from(text)
  if (bytes.length > mostTextBytes)
    throw new SandboxError(
      'too_large',
      `The value of ${place.table}.${place.column} is longer than 512 KiB.`,
      {
        hint: 'Store less: fewer or shorter environment variables.',
      },
    )
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key.secret, nonce, { authTagLength: tagBytes })
  cipher.setAAD(placeBytes(key.id, place))
  const sealed = Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
  return `${prefixOf(key.id)}${sealed.toString('base64url')}`
}

/** Throws one error for a wrong key, a wrong place and a changed value: they cannot be told apart. */
export function decrypt(sealed: string, key: Key, place: Place): string {
  try {
    const bytes = Buffer.from(sealed.slice(prefixOf(key.id).length), 'base64url')
    const nonce = bytes.subarray(0, nonceBytes)
    const decipher = createDecipheriv('aes-256-gcm', key.secret, nonce, { authTagLength: tagBytes })
    decipher.setAAD(placeBytes(key.id, place))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    const text = decipher.update(bytes.subarray(nonceBytes, -tagBytes))
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch {
    // OpenSSL's error says no more, and its frames could show arguments.
    throw unreadable(place)
  }
}

/** The id of the key that a value needs. Throws if the text is not a stored value. */
export function keyIdOf(sealed: string, place: Place): string {
  const [, id] =
    sealed.length > mostSealed ? [] : (/^sk1:([0-9a-f]{16}):[A-Za-z0-9_-]{38,}$/.exec(sealed) ?? [])
  if (id === undefined) throw unreadable(place)
  return id
}

export function unreadable({ table, column, row }: Place): SandboxError {
  return new SandboxError('unauthenticated', `The encrypted ${table}.${column} of ${row} cannot be read.`, {
    hint: 'It was changed, moved from another row, or encrypted with another key. Restore the database from a backup, or set the value again.',
    details: { table, column, row },
  })
}

const mostSealed = 64 + Math.ceil(((mostTextBytes + nonceBytes + tagBytes) * 4) / 3)

function prefixOf(keyId: string): string {
  return `${version}:${keyId}:`
}

/** JSON of an array of strings: two places never have the same bytes. */
function placeBytes(keyId: string, { table, column, row }: Place): Buffer {
  return Buffer.from(JSON.stringify([version, keyId, table, column, row]))
}

/**
 * Java's file of trusted certificates (JKS), which no other program reads. All versions of Java read this format, also
 * where they write another one.
 *
 * ```text
 * magic, version 2, number of entries, entries, SHA-1 of a password, a constant and everything before
 * ```
 */
import { createHash } from 'node:crypto'

const MAGIC = 0xfeedfeed
const VERSION = 2
const TRUSTED_CERTIFICATE = 2
const HEADER_BYTES = 12
const DIGEST_BYTES = 20
/** Java checks the digest only where a program gives a password, as `keytool` does. This is everybody's. */
const PASSWORD = 'changeit'

/** Adds the authority to the image's file. Another format is replaced by the certificates of the bundle (PEM). */
export function javaStore(image: Buffer | undefined, bundle: () => string, authority: string): Buffer {
  const [added] = certificatesIn(authority)
  if (added === undefined) throw new Error('the authority is not a certificate')
  const ours = entryOf('sandkasten', added)
  if (image && isStore(image)) {
    const head = Buffer.from(image.subarray(0, HEADER_BYTES))
    head.writeUInt32BE((head.readUInt32BE(8) + 1) >>> 0, 8)
    return sealed([head, image.subarray(HEADER_BYTES, -DIGEST_BYTES), ours])
  }
  const others = certificatesIn(bundle()).map((one, index) => entryOf(`certificate-${index + 1}`, one))
  const head = Buffer.alloc(HEADER_BYTES)
  head.writeUInt32BE(MAGIC, 0)
  head.writeUInt32BE(VERSION, 4)
  head.writeUInt32BE(others.length + 1, 8)
  return sealed([head, ...others, ours])
}

function isStore(bytes: Buffer): boolean {
  return (
    bytes.length >= HEADER_BYTES + DIGEST_BYTES &&
    bytes.readUInt32BE(0) === MAGIC &&
    bytes.readUInt32BE(4) === VERSION
  )
}

function entryOf(alias: string, certificate: Buffer): Buffer {
  const [kind, size, addedAt] = [Buffer.alloc(4), Buffer.alloc(4), Buffer.alloc(8)]
  kind.writeUInt32BE(TRUSTED_CERTIFICATE)
  size.writeUInt32BE(certificate.length)
  addedAt.writeBigUInt64BE(BigInt(Date.now()))
  return Buffer.concat([kind, text(alias), addedAt, text('X.509'), size, certificate])
}

/** Java's `writeUTF`, for ASCII. */
function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  return Buffer.concat([length, Buffer.from(value, 'latin1')])
}

function sealed(parts: readonly Buffer[]): Buffer {
  const digest = createHash('sha1')
    .update(Buffer.from(PASSWORD, 'utf16le').swap16())
    .update('Mighty Aphrodite')
  for (const part of parts) digest.update(part)
  return Buffer.concat([...parts, digest.digest()])
}

function certificatesIn(pem: string): Buffer[] {
  const found = pem.matchAll(/-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g)
  return [...found].map(([, base64]) => Buffer.from(base64!, 'base64'))
}

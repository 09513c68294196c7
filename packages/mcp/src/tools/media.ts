/** A file that begins like this is text for a model. */
export function isText(head: Uint8Array): boolean {
  return !head.includes(0) && magicOf(head) === undefined
}

/** From the first bytes, never from the name, which an agent or a repository chooses. */
export function mimeTypeOf(head: Uint8Array): string {
  return magicOf(head) ?? 'application/octet-stream'
}

function magicOf(head: Uint8Array): string | undefined {
  const begins = Buffer.from(head.subarray(0, 16)).toString('latin1')
  if (begins.startsWith('RIFF') && begins.slice(8, 12) === 'WEBP') return 'image/webp'
  return magic.find(([bytes]) => begins.startsWith(bytes))?.[1]
}

/** The four kinds of images that models take, and files that clients can show. */
const magic: ReadonlyArray<readonly [string, string]> = [
  ['\x89PNG\r\n\x1a\n', 'image/png'],
  ['\xff\xd8\xff', 'image/jpeg'],
  ['GIF87a', 'image/gif'],
  ['GIF89a', 'image/gif'],
  ['%PDF-', 'application/pdf'],
  ['PK\x03\x04', 'application/zip'],
  ['\x1f\x8b', 'application/gzip'],
]

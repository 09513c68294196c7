/**
 * The name of a sandbox at a vendor that identifies sandboxes by name: readable, and unique through a hash of our name, which
 * allows more characters.
 */
export async function vendorName(prefix: string, name: string): Promise<string> {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(name))
  const hash = Array.from(new Uint8Array(digest, 0, 10), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  )
  return `${prefix}${slug === '' ? '' : `${slug}-`}${hash}`
}

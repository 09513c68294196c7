import type { Readable } from 'node:stream'
import type { Container } from 'dockerode'
import { tarOf } from '../../../tar.ts'
import { javaStore } from '../../java-trust.ts'
import { aloneFiles, bundleOf, JAVA_STORES, LOCAL, MAX_BUNDLE } from '../../trust.ts'
import { statusOf } from '../daemon/errors.ts'

/** The files themselves: the daemon does not follow links when it reads one. */
const REAL_BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
] as const

/**
 * Adds the sandbox's certificate authority to the container's certificates, before its first start. With
 * `ownPrograms`, `/usr` belongs to the image; otherwise it is a read-only mount.
 */
export async function trustAuthority(
  container: Container,
  authority: string,
  { ownPrograms }: { readonly ownPrograms: boolean },
): Promise<void> {
  const filesAt = async (paths: readonly string[]) => {
    const found = await Promise.all(
      paths.map(async (path) => ({ path, bytes: await fileIn(container, path) })),
    )
    return found.flatMap(({ path, bytes }) => (bytes === undefined ? [] : [{ path, bytes }]))
  }
  const [known, java] = await Promise.all([filesAt(REAL_BUNDLES), filesAt(JAVA_STORES)])
  const bundle = bundleOf(known[0]?.bytes.toString('utf8'), authority)
  const places = [...new Set([REAL_BUNDLES[0], ...known.map(({ path }) => path)])]
  const files = [
    ...places.map((path) => ({ path: path.slice(1), content: Buffer.from(bundle) })),
    ...aloneFiles(authority, ownPrograms ? LOCAL : undefined).map(({ path, text }) => ({
      path,
      content: Buffer.from(text),
    })),
    ...java.map(({ path, bytes }) => ({
      path: path.slice(1),
      content: javaStore(bytes, () => known[0]?.bytes.toString('utf8') ?? bundle, authority),
    })),
  ]
  const entries = files.map(({ path, content }) => ({
    name: path,
    mode: 0o644,
    owner: { uid: 0, gid: 0 },
    content,
  }))
  await container.putArchive(tarOf(entries), { path: '/' })
}

/** A small file of the container. Undefined if it does not exist or is something else, such as a link. */
async function fileIn(container: Container, path: string): Promise<Buffer | undefined> {
  let archive: Readable
  try {
    archive = (await container.getArchive({ path })) as unknown as Readable
  } catch (cause) {
    if (statusOf(cause) === 404) return undefined
    throw cause
  }
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of archive) {
    size += (chunk as Buffer).length
    if (size > MAX_BUNDLE) {
      archive.destroy()
      return undefined
    }
    chunks.push(chunk as Buffer)
  }
  // One member: a header of 512 bytes with the size in octal and the type, then the content.
  const tar = Buffer.concat(chunks)
  const [bytes, type] = [
    Number.parseInt(tar.toString('latin1', 124, 135), 8),
    tar.toString('latin1', 156, 157),
  ]
  if (type !== '0' || !(bytes > 0 && 512 + bytes <= tar.length)) return undefined
  return tar.subarray(512, 512 + bytes)
}

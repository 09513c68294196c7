import { groupOf, passwdOf } from '../../../images/host/etc.ts'
import { type IsolatorSpec, storedImage } from '../../isolator.ts'
import { foldersOf, trustFiles } from '../../trust.ts'
import { hostNameservers, resolvConf } from '../network/pasta.ts'
import { SANDBOX_USER } from '../privileges/inside-ids.ts'

/**
 * A folder, or a file with this text. It is generated above the image at each start, and below the sandbox's own
 * files.
 */
export interface SkeletonEntry {
  /** Relative to the sandbox's root. */
  readonly path: string
  readonly text: string | null
  /** A file of the image on this machine, which comes before the text. */
  readonly source?: string
  /** The whole content instead of a text. */
  readonly data?: Buffer
  /** As the sandbox sees it. */
  readonly owner: number
  /** Default: 0755 for a folder, 0644 for a file. */
  readonly mode?: number
}

/**
 * The generated files of every sandbox: its name, its resolver, a working folder, and the certificates that it trusts.
 * `layers` are those of its disk and image.
 */
export function skeletonOf(
  spec: IsolatorSpec,
  more: readonly SkeletonEntry[] = [],
  layers: readonly string[] = [],
): SkeletonEntry[] {
  const files = {
    hostname: `${spec.hostname}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ${spec.hostname}\n`,
    'resolv.conf': resolvConf(spec.network, hostNameservers()),
    ...(spec.account === undefined ? {} : { passwd: passwdOf(spec.account), group: groupOf(spec.account) }),
  }
  const entries: SkeletonEntry[] = [
    { path: 'etc', text: null, owner: 0 },
    // Every user may create files there, on any image. The image's own files in /tmp stay visible.
    { path: 'tmp', text: null, owner: 0, mode: 0o1777 },
  ]
  for (const [name, text] of Object.entries(files)) entries.push({ path: `etc/${name}`, text, owner: 0 })
  // An image of the store has its working folder, with the owners and modes of the folders that lead to it.
  const parts = storedImage(spec.image) ? [] : spec.workdir.split('/').filter(Boolean)
  for (const [index] of parts.entries()) {
    const path = parts.slice(0, index + 1).join('/')
    // `/home` is the system's, `/home/sandbox/project` the user's.
    const owner = spec.user === 'root' || (index === 0 && parts.length > 1) ? 0 : SANDBOX_USER
    entries.push({ path, text: null, owner })
  }
  const known = new Set(entries.map(({ path }) => path))
  const all = [...more.filter(({ path }) => !known.has(path)), ...entries]
  return [...all, ...trustEntries(spec, layers, new Set(all.map(({ path }) => path)))]
}

function trustEntries(
  { authority, image, layers: own = [] }: IsolatorSpec,
  layers: readonly string[],
  known: ReadonlySet<string>,
): SkeletonEntry[] {
  if (authority === undefined) return []
  const immutable = (image === 'host' || storedImage(image) !== undefined) && own.length === 0
  const files = trustFiles(authority, layers, { ownPrograms: image !== 'host', immutable })
  const folders = foldersOf(files).filter((path) => !known.has(path))
  return [
    ...folders.map((path) => ({ path, text: null, owner: 0 })),
    ...files.map((file) => ({ ...file, owner: 0 })),
  ]
}

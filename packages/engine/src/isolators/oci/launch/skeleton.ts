import { groupOf, passwdOf } from '../../../images/host/etc.ts'
import { type IsolatorSpec, storedImage } from '../../isolator.ts'
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
  /** As the sandbox sees it. */
  readonly owner: number
}

/** The generated files of every sandbox: its name, its resolver, and a working folder. */
export function skeletonOf(spec: IsolatorSpec, more: readonly SkeletonEntry[] = []): SkeletonEntry[] {
  const files = {
    hostname: `${spec.hostname}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ${spec.hostname}\n`,
    'resolv.conf': resolvConf(spec.network, hostNameservers()),
    ...(spec.account === undefined ? {} : { passwd: passwdOf(spec.account), group: groupOf(spec.account) }),
  }
  const entries: SkeletonEntry[] = [{ path: 'etc', text: null, owner: 0 }]
  for (const [name, text] of Object.entries(files)) entries.push({ path: `etc/${name}`, text, owner: 0 })
  // An image of the store has its working folder, with the owners and modes of the folders that lead to it.
  const parts = storedImage(spec.image) ? [] : spec.workdir.split('/').filter(Boolean)
  for (const [index] of parts.entries()) {
    const path = parts.slice(0, index + 1).join('/')
    // `/home` is the system's, `/home/sandbox/project` the user's.
    const owner = index === 0 && parts.length > 1 ? 0 : SANDBOX_USER
    entries.push({ path, text: null, owner })
  }
  const known = new Set(entries.map(({ path }) => path))
  return [...more.filter(({ path }) => !known.has(path)), ...entries]
}

import { readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../../read-files.ts'
import { sudoLayerName } from '../sudo-layer.ts'
import { hostImage } from './host.ts'
import { hostRootName } from './root.ts'

/** Longer than any start takes. After this time a start has mounted its skeleton or has failed. */
const SETTLED_MS = 60 * 60 * 1000

/**
 * Removes outdated skeletons of the image `host`, and outdated layers with `sudo`. No record names a skeleton: a
 * sandbox mounts the current one when it starts and keeps it mounted while it runs. So a skeleton is removed if another
 * has been current for long and no shim has it mounted.
 */
export function collectHostImages(imagesFolder: string, host = '/'): string[] {
  const names = namesIn(imagesFolder).filter((name) =>
    /^(host(root)?|sudo)-[0-9a-f]{16}(\.\w{12}|\.gone-\w+)?$/.test(name),
  )
  if (names.length < 2) return []
  const current = hostImage(imagesFolder, host).layer
  if (!isSettled(current)) return []
  const kept = [current, join(imagesFolder, hostRootName(host)), join(imagesFolder, sudoLayerName)]
  const old = names.filter((name) => !kept.includes(join(imagesFolder, name)))
  const mounted = mountedByShims()
  // If the mounts of a process cannot be read, remove nothing.
  if (mounted === undefined) return []
  // A mount is known by its path on its own disk, which is the end of its path here.
  const isMounted = (path: string) => mounted.some((root) => path.endsWith(root))
  // A name with a suffix is being made, or its maker was killed.
  const gone = old.filter((name) => {
    const path = join(imagesFolder, name)
    return isSettled(path) && !isMounted(path)
  })
  for (const name of gone) {
    const trash = join(imagesFolder, `${/^\w+-[0-9a-f]+/.exec(name)?.[0]}.gone-${randomId(8)}`)
    renameSync(join(imagesFolder, name), trash)
    rmSync(trash, { recursive: true, force: true })
  }
  return gone
}

/** The skeletons that shims of this machine have mounted. Undefined if the mounts of a shim cannot be read. */
function mountedByShims(): string[] | undefined {
  const roots: string[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('shim')) continue
      const lines = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
      const paths = lines.map((line) => line.split(' ')[3] ?? '')
      roots.push(...paths.filter((root) => /\/(host(root)?|sudo)-[0-9a-f]{16}$/.test(root)).map(unescaped))
    } catch (error) {
      // A process that has ended has no mounts.
      if (errnoOf(error) === 'EACCES' || errnoOf(error) === 'EPERM') return undefined
    }
  }
  return roots
}

/** The kernel escapes spaces and similar characters in octal. */
const unescaped = (path: string) =>
  path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))

/** If the clock was set back, the skeleton seems younger and is kept longer. */
function isSettled(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats !== undefined && Date.now() - stats.mtimeMs > SETTLED_MS
}

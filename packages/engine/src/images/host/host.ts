import { createHash, randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { ETC_FILES, etcGroup, etcPasswd, etcProfile, NSSWITCH } from './etc.ts'
import { type HiddenPath, type HostImageOptions, hiddenInHost } from './hidden.ts'

/**
 * The image `host`: this machine's own programs, without a download. `/usr` is mounted read-only from the machine.
 * This file makes the rest once, as the read-only layer below every such sandbox: empty folders and a small `/etc`.
 *
 * The machine's `/` is never mounted, because every world-readable file would show. `/etc` contains only names on a
 * list (`etc.ts`) that every user of this machine may read. In `/usr`, configuration and credentials are hidden
 * (`hidden.ts`). /home, /root, /var, /opt, /srv and /mnt do not show.
 */
export interface HostImage {
  /** The skeleton: a lower layer. */
  readonly layer: string
  /** Mounted read-only into the sandbox. */
  readonly binds: readonly { readonly source: string; readonly target: string }[]
  /** Paths in there that the sandbox does not see. */
  readonly hidden: readonly HiddenPath[]
}

/** Increase it when the generated files below change. */
const VERSION = 2

/** Folders in every sandbox of the image `host`. */
export const HOST_FOLDERS = [
  'dev',
  'etc',
  'home',
  'media',
  'mnt',
  'opt',
  'proc',
  'run',
  'srv',
  'sys',
  'usr',
  'var',
  'var/cache',
  'var/lib',
  'var/log',
  'var/spool',
]

/**
 * Returns the skeleton for the current files and creates it if necessary. When these files change (an upgrade writes
 * `ld.so.cache`), the next sandbox gets a new skeleton and running sandboxes keep theirs. If two processes do this at
 * once, one result is kept.
 */
export function hostImage(imagesFolder: string, host = '/', options: HostImageOptions = {}): HostImage {
  const binds = [{ source: join(host, 'usr'), target: '/usr' }]
  for (const { name, isLink } of programFolders(host)) {
    if (!isLink) binds.push({ source: join(host, name), target: `/${name}` })
  }
  const layer = join(imagesFolder, `host-${fingerprint(host)}`)
  if (!existsSync(layer)) {
    mkdirSync(imagesFolder, { recursive: true, mode: 0o700 })
    const draft = `${layer}.${randomBytes(6).toString('hex')}`
    try {
      build(draft, host)
      renameSync(draft, layer)
    } catch (error) {
      rmSync(draft, { recursive: true, force: true })
      if (!existsSync(layer)) throw error
    }
  }
  return { layer, binds, hidden: hiddenInHost(options, host) }
}

function build(root: string, host: string): void {
  makeFolder(root)
  for (const folder of HOST_FOLDERS) makeFolder(join(root, folder))
  for (const folder of ['tmp', 'var/tmp']) makeFolder(join(root, folder), 0o1777)
  makeFolder(join(root, 'root'), 0o700)
  for (const folder of ['home/sandbox', 'workspace']) {
    makeFolder(join(root, folder))
    // An ordinary account cannot give files away: there the shim shows these folders as the sandbox's own.
    if (process.getuid?.() === 0) chownSync(join(root, folder), 1000, 1000)
  }
  symlinkSync('/run', join(root, 'var/run'))
  for (const { name, isLink } of programFolders(host)) {
    if (isLink) symlinkSync(readlinkSync(join(host, name)), join(root, name))
    else makeFolder(join(root, name))
  }
  for (const name of ETC_FILES) copy(join(host, 'etc', name), join(root, 'etc', name))
  const generated: Record<string, string> = {
    passwd: etcPasswd,
    group: etcGroup,
    profile: etcProfile,
    'nsswitch.conf': NSSWITCH,
    hostname: 'sandbox\n',
    hosts: '127.0.0.1 localhost\n::1 localhost\n',
    'resolv.conf': '',
    'machine-id': '',
  }
  for (const [name, text] of Object.entries(generated)) {
    writeFileSync(join(root, 'etc', name), text)
    chmodSync(join(root, 'etc', name), 0o644)
  }
  symlinkSync('/proc/mounts', join(root, 'etc/mtab'))
}

/** `/bin` and similar: links into `/usr` on most systems, folders on some. Folders are mounted like `/usr`. */
function programFolders(host: string): { name: string; isLink: boolean }[] {
  const names = readdirSync(host).filter((name) => /^(bin|sbin|lib\w*)$/.test(name))
  return names.map((name) => ({ name, isLink: lstatSync(join(host, name)).isSymbolicLink() }))
}

/** Copies a file, link or folder without the parts that are not world-readable. Links are copied as links. */
function copy(source: string, target: string): void {
  const stats = lstatSync(source, { throwIfNoEntry: false })
  if (!stats || !readable(source)) return
  makeFolder(dirname(target))
  if (stats.isSymbolicLink()) return symlinkSync(readlinkSync(source), target)
  if (stats.isDirectory()) {
    makeFolder(target, stats.mode & 0o7777)
    for (const name of readdirSync(source)) copy(join(source, name), join(target, name))
    return
  }
  copyFileSync(source, target)
  chmodSync(target, stats.mode & 0o7777)
}

/** Sets the mode regardless of the umask: everyone in the sandbox reads these files. */
function makeFolder(path: string, mode = 0o755): void {
  if (existsSync(path)) return
  mkdirSync(path)
  chmodSync(path, mode)
}

function readable(path: string): boolean {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return true
  return stats.isDirectory() ? (stats.mode & 0o005) === 0o005 : stats.isFile() && (stats.mode & 0o004) !== 0
}

/** Changes whenever one of the sources does. It must be fast, because every start calls it. */
function fingerprint(host: string): string {
  const hash = createHash('sha256').update(`${VERSION}\n`)
  for (const { name, isLink } of programFolders(host)) hash.update(`${name} ${isLink}\n`)
  for (const name of ETC_FILES) {
    const stats: Stats | undefined = statSync(join(host, 'etc', name), { throwIfNoEntry: false })
    if (stats) hash.update(`${name} ${stats.mtimeMs} ${stats.size} ${stats.mode}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}

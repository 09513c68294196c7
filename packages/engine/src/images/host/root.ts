import { createHash, randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errnoOf } from '@sandkasten/sdk/internal'
import { type AptSources, aptSources } from '../build/apt-sources.ts'
import { FAKE_SUDO } from './sudo.ts'

/** Increase it when the content below changes. */
const VERSION = 1

/** Copied as far as every account of this machine may read them. None may contain a secret. */
const COPIED = [
  'var/lib/dpkg',
  'etc/dpkg',
  'etc/apt/trusted.gpg.d',
  'etc/apt/keyrings',
  'etc/debconf.conf',
  'etc/adduser.conf',
]
const EMPTY = [
  'etc/apt/apt.conf.d',
  'etc/apt/preferences.d',
  'etc/apt/sources.list.d',
  'var/cache/apt/archives/partial',
  'var/cache/debconf',
  'var/lib/apt/lists/partial',
  'var/log/apt',
]

/**
 * The layer that a sandbox of the image `host` needs in addition if its user is root, so that `apt-get install` works.
 * It has the machine's package database, its apt sources, and an empty copy of each public folder of `/usr`. The sandbox
 * owns these folders and so may create, replace and delete files there (`runner/src/shim/writable_programs.rs`).
 *
 * The layer is made once and again after each change of the machine's packages. An outdated one does no harm: folders
 * that it lacks are read-only, and a folder that the machine has closed since then stays closed.
 *
 * `programs`: `usr`, and `bin` and similar where these are not links.
 */
export async function hostRootLayer(
  imagesFolder: string,
  programs: readonly string[],
  host = '/',
): Promise<string> {
  const layer = join(imagesFolder, hostRootName(host))
  if (existsSync(layer)) return layer
  await mkdir(imagesFolder, { recursive: true, mode: 0o700 })
  const draft = `${layer}.${randomBytes(6).toString('hex')}`
  try {
    await build(draft, programs, host)
    await rename(draft, layer)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    // Another process was faster.
    if (!existsSync(layer)) throw error
  }
  return layer
}

/** Changes whenever packages of the machine do. */
export function hostRootName(host = '/'): string {
  const hash = createHash('sha256').update(`${VERSION}\n`)
  for (const name of [
    'var/lib/dpkg/status',
    'etc/apt/sources.list',
    'etc/apt/sources.list.d',
    'usr',
    'usr/local',
  ]) {
    const stats = statSync(join(host, name), { throwIfNoEntry: false })
    if (stats) hash.update(`${name} ${stats.mtimeMs} ${stats.size}\n`)
  }
  return `hostroot-${hash.digest('hex').slice(0, 16)}`
}

async function build(root: string, programs: readonly string[], host: string): Promise<void> {
  await folder(root)
  for (const name of programs) await foldersOf(join(host, name), join(root, name))
  for (const name of EMPTY) await folders(root, name)
  for (const name of COPIED) {
    await folders(root, dirname(name))
    await copy(join(host, name), join(root, name))
  }
  const file = async (name: string, text: string, mode = 0o644) => {
    await folders(root, dirname(name))
    await writeFile(join(root, name), text)
    await chmod(join(root, name), mode)
  }
  const { list, sources } = sourcesOf(host)
  if (list !== '') await file('etc/apt/sources.list', `${list}\n`)
  if (sources !== '') await file('etc/apt/sources.list.d/host.sources', `${sources}\n`)
  // It names groups of this machine, which the image does not have.
  await rm(join(root, 'var/lib/dpkg/statoverride'), { force: true })
  // The image has no account `_apt`, and root inside is no user of this machine.
  await file('etc/apt/apt.conf.d/00sandkasten', 'APT::Sandbox::User "root";\n')
  await file('usr/local/bin/sudo', FAKE_SUDO, 0o755)
}

/** Without those that contain a password. */
function sourcesOf(host: string): Pick<AptSources, 'list' | 'sources'> {
  const harmless = (text: string) => !/:\/\/[^/\s]*@/.test(text)
  try {
    const { list, sources } = aptSources(host)
    return {
      list: list.split('\n').filter(harmless).join('\n'),
      sources: sources.split('\n\n').filter(harmless).join('\n\n'),
    }
  } catch {
    // Not Debian: programs can be installed by other means.
    return { list: '', sources: '' }
  }
}

/** Empty folders with the names of those that every account may list and enter. */
async function foldersOf(source: string, target: string): Promise<void> {
  const stats = await lstat(source).catch(() => undefined)
  if (!stats?.isDirectory() || !isPublic(stats.mode)) return
  await folder(target)
  const entries = await readdir(source, { withFileTypes: true })
  const inside = entries.filter((entry) => entry.isDirectory())
  await Promise.all(inside.map(({ name }) => foldersOf(join(source, name), join(target, name))))
}

const isPublic = (mode: number) => (mode & 0o005) === 0o005

/** Copies a tree without the parts that are not world-readable. Links are copied as links. */
async function copy(source: string, target: string): Promise<void> {
  const stats = await lstat(source).catch(() => undefined)
  if (!stats || /^lock/.test(basename(source))) return
  if (stats.isSymbolicLink()) return symlink(await readlink(source), target)
  if (stats.isDirectory()) {
    if (!isPublic(stats.mode)) return
    await folder(target)
    const names = await readdir(source)
    await Promise.all(names.map((name) => copy(join(source, name), join(target, name))))
  } else if (stats.isFile() && (stats.mode & 0o004) !== 0) {
    await copyFile(source, target)
    await chmod(target, stats.mode & 0o755)
  }
}

async function folders(root: string, path: string): Promise<void> {
  const parts = path.split('/')
  for (const index of parts.keys()) await folder(join(root, ...parts.slice(0, index + 1)))
}

/** Sets the mode regardless of the umask. */
async function folder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o755 }).then(
    () => chmod(path, 0o755),
    (error) => {
      if (errnoOf(error) !== 'EEXIST') throw error
    },
  )
}

import { dirname, posix } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { TarEntry } from '../../tar.ts'
import type { ConfigDocument } from '../import/manifest.ts'
import type { ImageConfig } from '../record.ts'
import { shown } from '../reference.ts'
import { type LayerView, lookUp, readText } from './lookup.ts'

/** The user of a sandbox whose image names no user, or root. Only the runner is root in a sandbox. */
const SANDBOX_ID = 1000
const WORKDIR = '/workspace'
const ROOT = { uid: 0, gid: 0 }
/** Paths where the sandbox has a mount or generated files of its own. */
const TAKEN = /^\/(proc|dev|sys|run|tmp|etc)(\/|$)/

/**
 * The content of the layer on top of every image: a line in `/etc/passwd` and a home for its user, if the image has
 * none, and its working folder. It is made once and shared by all sandboxes of the image.
 */
export function topLayerContents(layers: readonly LayerView[], document: ConfigDocument): TopLayer {
  const [passwd, group] = [readText(layers, '/etc/passwd'), readText(layers, '/etc/group')]
  const asked = userOf(document.user, passwd ?? '', group ?? '')
  const user = asked ?? { uid: SANDBOX_ID, gid: SANDBOX_ID }
  const top = new Entries(layers)
  if (!lines(passwd).some((fields) => Number(fields[2]) === user.uid)) {
    const name = lines(passwd).some(([known]) => known === 'sandbox') ? `sandbox-${user.uid}` : 'sandbox'
    const home = `/home/${name}`
    const line = `${name}:x:${user.uid}:${user.gid}:${name}:${home}:${shellOf(layers)}\n`
    top.file('/etc/passwd', ended(passwd ?? 'root:x:0:0:root:/root:/bin/sh\n') + line)
    if (!lines(group).some((fields) => Number(fields[2]) === user.gid))
      top.file('/etc/group', `${ended(group ?? 'root:x:0:\n')}${name}:x:${user.gid}:\n`)
    top.folder(home, user)
  }
  const workdir = workdirOf(layers, document.workdir)
  // An image for root could write there, so its replacement user must too. An image with its own user has prepared
  // the folder.
  if (!asked || lookUp(layers, workdir).stats === undefined) top.folder(workdir, user)
  return { config: { env: envOf(document.env), workdir, user }, entries: top.all }
}

export interface TopLayer {
  readonly config: ImageConfig
  readonly entries: readonly TarEntry[]
}

type Owner = TarEntry['owner']

class Entries {
  readonly all: TarEntry[] = [{ name: './', mode: 0o755, owner: ROOT }]
  readonly #layers: readonly LayerView[]

  constructor(layers: readonly LayerView[]) {
    this.#layers = layers
  }

  folder(path: string, owner: Owner): void {
    if (path === '/') return
    this.#parents(path)
    const mode = lookUp(this.#layers, path).stats?.mode ?? 0o755
    this.#add(`${path}/`, owner, mode)
  }

  file(path: string, content: string): void {
    const before = lookUp(this.#layers, path)
    this.#parents(before.path)
    this.#add(before.path, before.stats ?? ROOT, before.stats?.mode ?? 0o644, Buffer.from(content))
  }

  /** A folder of an upper layer overrides owner and mode, so it gets those of the image's folder. */
  #parents(path: string): void {
    const parent = dirname(path)
    if (parent === '/') return
    this.#parents(parent)
    const { stats } = lookUp(this.#layers, parent)
    this.#add(`${parent}/`, stats ?? ROOT, stats?.mode ?? 0o755)
  }

  #add(path: string, owner: Owner, mode: number, content?: Buffer): void {
    this.all.push({
      name: path.slice(1),
      mode: mode & 0o7777,
      owner: { uid: owner.uid, gid: owner.gid },
      content,
    })
  }
}

/** Resolves links, because the folder is made by its plain path. */
function workdirOf(layers: readonly LayerView[], wanted: string): string {
  const path = wanted.startsWith('/') && !wanted.includes('\0') ? posix.normalize(wanted) : '/'
  if (path === '/' || TAKEN.test(path)) return WORKDIR
  const found = lookUp(layers, path)
  if (found.path === '/' || TAKEN.test(found.path)) return WORKDIR
  if (found.stats && !found.stats.isDirectory())
    throw new SandboxError('invalid_argument', `The image’s working folder ${shown(path)} is not a folder.`)
  return found.path
}

/** Undefined for no user and for root. */
function userOf(wanted: string, passwd: string, group: string): { uid: number; gid: number } | undefined {
  if (wanted === '') return undefined
  const [who = '', whose] = wanted.split(':')
  const line = lines(passwd).find(([name, , uid]) => name === who || uid === who)
  const uid = idOf(line?.[2] ?? who)
  if (uid === 0) return undefined
  const groupLine = lines(group).find(([name, , gid]) => name === whose || gid === whose)
  const gid = whose === undefined ? idOf(line?.[3] ?? '0') : idOf(groupLine?.[2] ?? whose)
  if (uid !== undefined && gid !== undefined) return { uid, gid }
  throw new SandboxError(
    'invalid_argument',
    `The image’s user “${shown(wanted)}” is not in its /etc/passwd.`,
    {
      hint: 'Change USER in the image to one that exists, or to a number below 65536.',
    },
  )
}

function envOf(entries: readonly string[]): Record<string, string> {
  const pairs = entries
    .filter((entry) => entry.indexOf('=') > 0 && !entry.includes('\0'))
    .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)] as const)
  return Object.fromEntries(pairs)
}

function shellOf(layers: readonly LayerView[]): string {
  return ['/bin/bash', '/bin/sh'].find((path) => lookUp(layers, path).stats?.isFile()) ?? '/bin/sh'
}

const idOf = (text: string) => (/^\d{1,5}$/.test(text) && Number(text) < 65536 ? Number(text) : undefined)
const lines = (text = '') => text.split('\n').map((line) => line.split(':'))
const ended = (text: string) => (text === '' || text.endsWith('\n') ? text : `${text}\n`)

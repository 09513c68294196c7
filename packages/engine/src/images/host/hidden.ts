import { lstatSync } from 'node:fs'
import { join, posix } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** The parts of this machine's `/usr` that the image `host` hides. */
export interface HostImageOptions {
  /** More folders and files to hide, such as `/usr/local/share/keys`. */
  readonly hide?: readonly string[]
  /** Paths to show although they are hidden by default (`HIDDEN_IN_HOST`). */
  readonly show?: readonly string[]
}

export interface HiddenPath {
  readonly path: string
  readonly isFolder: boolean
}

/** Configuration that programs keep below their prefix, and with it their credentials. */
const CONFIGURATION = ['etc', 'var', 'src']
/** Files that users and installers leave in a prefix as in a home. */
const CREDENTIALS = [
  '.aws',
  '.azure',
  '.cargo',
  '.config',
  '.docker',
  '.env',
  '.git-credentials',
  '.gitconfig',
  '.gnupg',
  '.kube',
  '.netrc',
  '.npmrc',
  '.pypirc',
  '.ssh',
  '.yarnrc',
  '.yarnrc.yml',
  'pip.conf',
]

/**
 * Hidden unless `show` names them. Certificates and public keys (`/usr/share/ca-certificates`,
 * `/usr/local/share/ca-certificates`, `/usr/share/keyrings`) are visible: programs need them and they are no secret.
 */
export const HIDDEN_IN_HOST: readonly string[] = [
  ...['/usr', '/usr/local'].flatMap((prefix) =>
    [...CONFIGURATION, ...CREDENTIALS].map((name) => `${prefix}/${name}`),
  ),
  // npm’s own built-in configuration, and the homes of cargo and Go in their container images.
  '/usr/lib/node_modules/npm/npmrc',
  '/usr/local/lib/node_modules/npm/npmrc',
  '/usr/share/nodejs/npm/npmrc',
  '/usr/local/cargo/config',
  '/usr/local/cargo/config.toml',
  '/usr/local/cargo/credentials',
  '/usr/local/cargo/credentials.toml',
]

const MAX_PATHS = 256

/** The hidden paths that exist on this machine. Throws for a path outside the image. */
export function hiddenInHost({ hide = [], show = [] }: HostImageOptions, host = '/'): HiddenPath[] {
  for (const [option, paths] of Object.entries({ hide, show })) {
    if (paths.length > MAX_PATHS) throw wrong(option, `${paths.length} paths are too many`)
    for (const path of paths)
      if (
        !/^\/(usr|bin|sbin|lib\w*)\/[^\0:]+$/.test(path) ||
        posix.normalize(path) !== path ||
        path.endsWith('/')
      )
        throw wrong(option, `“${path}” is not a plain path below /usr`)
  }
  const all = [...HIDDEN_IN_HOST.filter((path) => !show.includes(path)), ...hide]
  return [...new Set(all)].flatMap((path) => {
    const stats = lstatSync(join(host, path), { throwIfNoEntry: false })
    // A link leads to a path of the image, which is hidden or shown by its own name.
    return stats === undefined || stats.isSymbolicLink() ? [] : [{ path, isFolder: stats.isDirectory() }]
  })
}

const wrong = (option: string, message: string) =>
  new SandboxError('invalid_argument', `hostImage.${option}: ${message}`, {
    hint: `List at most ${MAX_PATHS} paths such as /usr/local/share/keys.`,
  })

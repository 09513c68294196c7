import type { Hints } from '../errors.ts'

/** What the sandbox's user may do, as far as the provider knows. */
export interface Access {
  readonly writablePaths: readonly string[]
  readonly user: 'root' | 'other'
  /** The provider can create sandboxes with the user root. */
  readonly rootAvailable: boolean
}

/**
 * A hint for a system call that failed on an absolute path in a sandbox, by errno. For a missing permission the path
 * matters: chmod does not help for files of the image. Undefined if the code's default hint is as good.
 */
export function errnoHint(
  errno: string | number | undefined,
  path?: string,
  access?: Access,
): string | Hints | undefined {
  const name = typeof errno === 'number' ? names[errno] : errno
  if (access && path && (name === 'EROFS' || name === 'EACCES' || name === 'EPERM'))
    return accessHint(name, path, access)
  if (name === 'EROFS' || ((name === 'EACCES' || name === 'EPERM') && path && ofImage.test(path)))
    return 'The image is read-only here: write below the working directory or to /tmp, or put the file into the image.'
  return name === undefined ? undefined : hints[name]
}

function accessHint(name: string, path: string, access: Access): string | Hints {
  const { writablePaths, user, rootAvailable } = access
  const folders = shownFolders(writablePaths)
  if (ofKernel.test(path)) return closedByKernel(folders)
  if (name === 'EROFS') return `The path is read-only. Write below ${folders}.`
  if (user === 'root')
    return 'Not even root may change this file in place: it belongs to the machine or to a mount. Write a new file and rename it over the old one, or write elsewhere.'
  const what = isBelow(path, writablePaths) ? ofFile : `Only root may do that there. Write below ${folders}`
  if (!rootAvailable) return `${what}.`
  return {
    sdk: `${what}, or create the sandbox with user: 'root'.`,
    http: `${what}, or create the session with "user": "root".`,
    cli: `${what}, or use --user root with sandkasten run or sandkasten sessions create.`,
  }
}

/** A hint for a write to an absolute path that was refused, where only the writable folders are known. */
export function refusedWriteHint(path: string, writablePaths: readonly string[]): string {
  const folders = shownFolders(writablePaths)
  if (ofKernel.test(path)) return closedByKernel(folders)
  if (isBelow(path, writablePaths)) return `${ofFile}.`
  return `The sandbox’s user may not write there. Write below ${folders}.`
}

const ofFile =
  'The mode of the file or of its folder does not allow it, or it belongs to another user of the sandbox'

const closedByKernel = (folders: string) => `The kernel keeps this path closed. Write below ${folders}.`

const shownFolders = (folders: readonly string[]) => folders.slice(0, 5).join(', ')

function isBelow(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => folder === '/' || path === folder || path.startsWith(`${folder}/`))
}

const ofKernel = /^\/(proc|sys|dev)(\/|$)/

/** Folders of the image, owned by root. */
const ofImage = /^\/(usr|bin|sbin|lib\w*|etc|boot|opt|proc|sys|dev|srv)(\/|$)/

const hints: Readonly<Record<string, string | Hints>> = {
  ENOSPC: {
    sdk: 'The sandbox’s disk is full: remove files in it, or create one with a larger resources.diskMb.',
    http: 'The session’s disk is full: remove files in it, or create one with a larger limits.disk_mb.',
    cli: 'The session’s disk is full: remove files in it, or create one with a larger --disk.',
  },
  EDQUOT: 'The disk quota is used up: remove files.',
  EFBIG: 'The file is larger than this file system or the limit of the process allows.',
  ETXTBSY: 'The file is a running program: stop it first, or write a new file and rename it.',
  EXDEV: 'The two paths are on different file systems: copy the file, then remove the original.',
  ELOOP: 'The path contains a loop of symbolic links.',
  ENAMETOOLONG: 'File names may have at most 255 bytes.',
  EMFILE: 'Too many files are open: run fewer commands at once.',
}

/** Linux error numbers, as reported by the runner. */
const names: Readonly<Record<number, string>> = {
  1: 'EPERM',
  13: 'EACCES',
  18: 'EXDEV',
  24: 'EMFILE',
  26: 'ETXTBSY',
  27: 'EFBIG',
  28: 'ENOSPC',
  30: 'EROFS',
  36: 'ENAMETOOLONG',
  40: 'ELOOP',
  122: 'EDQUOT',
}

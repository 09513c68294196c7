import { posix } from 'node:path'

/** Our folder in an uploaded project: the manifest and temporary files. */
export const stateFolder = '.sandkasten'

/**
 * Whether a path from the sandbox stays in the project and out of its `.git`, including git's known aliases: `.GIT`,
 * `git~1`, `.git.`, `.git::$DATA`, zero-width characters, backslashes.
 */
export function isSafePath(path: string): boolean {
  if (path === '' || path.startsWith('/') || path.includes('\0') || /^[a-z]:/i.test(path)) return false
  if (path.split('/').some((part) => part === '' || part === '.')) return false
  return path.split(/[/\\]/).every((part) => part !== '..' && !isGitName(part))
}

export function isReserved(path: string): boolean {
  return path === stateFolder || path.startsWith(`${stateFolder}/`)
}

export function leadsOutside(path: string, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.startsWith('\\') || /^[a-z]:/i.test(target))
    return true
  const end = posix.normalize(posix.join(posix.dirname(path), target.replaceAll('\\', '/')))
  return end === '..' || end.startsWith('../')
}

/** Every folder above a path, outermost first. */
export function parentsOf(path: string): string[] {
  const parts = path.split('/')
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('/'))
}

/**
 * Splits the output of `git … -z`. Names that are not UTF-8 are separate, because no sandbox API can represent them.
 */
export function splitNames(output: Buffer): { names: string[]; notUtf8: string[] } {
  const names: string[] = []
  const notUtf8: string[] = []
  for (let at = 0; at < output.byteLength; ) {
    const nul = output.indexOf(0, at)
    const end = nul === -1 ? output.byteLength : nul
    const bytes = output.subarray(at, end)
    const name = bytes.toString('utf8')
    if (Buffer.from(name).equals(bytes)) names.push(name)
    else notUtf8.push(name)
    at = end + 1
  }
  return { names, notUtf8 }
}

// Characters that HFS+ ignores in names.
const ignored = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

function isGitName(part: string): boolean {
  const plain = part
    .replaceAll(ignored, '')
    .replace(/:.*$/s, '')
    .replace(/[ .]+$/, '')
    .toLowerCase()
  return plain === '.git' || /^git~\d+$/.test(plain)
}

import { lstat, readlink } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '../../errors.ts'
import { errnoOf, translate } from '../../folder/errors.ts'

/**
 * Confinement: resolves a caller's path to a real path below `root`, or throws.
 *
 * The path is walked one component at a time. A symbolic link is replaced by its target, so links inside the folder work.
 * A link that leads out (absolute, through `..`, or through another link) is refused, even if its target does not exist.
 * The result contains no links, except that with `follow: false` the last component may be one.
 *
 * Races with running commands are not defended against: commands in a local sandbox are not confined, so a program that
 * wins the race can read the file directly.
 */
export async function confine(root: string, given: string, options: { follow: boolean }): Promise<string> {
  const pending = split(root, given, given)
  const walked: string[] = []
  let links = 0
  while (pending.length > 0) {
    const name = pending.shift()!
    if (name === '' || name === '.') continue
    if (name === '..') {
      if (walked.length === 0) throw outside(given)
      walked.pop()
      continue
    }
    const here = path.join(root, ...walked, name)
    if (pending.length === 0 && !options.follow) return here
    const target = await linkTarget(here)
    if (target === undefined) {
      walked.push(name)
      continue
    }
    links += 1
    if (links > 40)
      throw translate(
        Object.assign(new Error('too many links'), { code: 'ELOOP' }),
        `The path ${given} cannot be resolved`,
      )
    if (path.isAbsolute(target)) walked.length = 0
    pending.unshift(...split(root, target, given))
  }
  return path.join(root, ...walked)
}

/** The components below root. An absolute path must be root or below it. */
function split(root: string, value: string, given: string): string[] {
  if (!path.isAbsolute(value)) return value.split(separators)
  // Not path.relative alone: it would normalize `link/..` before the link is resolved.
  if (value !== root && !value.startsWith(root + path.sep)) throw outside(given)
  return value.slice(root.length).split(separators)
}

const separators = path.sep === '\\' ? /[\\/]/ : '/'

async function linkTarget(file: string): Promise<string | undefined> {
  try {
    return (await lstat(file)).isSymbolicLink() ? await readlink(file) : undefined
  } catch (error) {
    // A missing path, or one below a file: the operation itself reports it.
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined
    throw translate(error, `The path ${file} cannot be resolved`)
  }
}

function outside(given: string): SandboxError {
  return new SandboxError('path_outside', `The path ${given} leads out of the sandbox’s folder.`, {
    provider: 'local',
    hint: 'Use a path relative to the sandbox’s workdir, or an absolute one below it.',
  })
}

import { lstat, readlink } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '../../errors.ts'
import { errnoOf, translate } from '../../folder/errors.ts'

/**
 * Confinement: from a caller's path to a real one below `root`, or an error.
 *
 * The path is walked one component at a time. A symbolic link is read and its target walked in its place, so
 * links inside the folder work, and a link that leads out (absolutely, through `..`, or by way of another link) is
 * refused, whether or not its target exists. What comes back has no link left in it, except that with
 * `follow: false` the last component itself may be one.
 *
 * Commands in a local sandbox are not confined at all, so a race against a running command is not defended
 * against: a program that wins the race can read the file directly.
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

/** The components below root. An absolute path must name root or something in it. */
function split(root: string, value: string, given: string): string[] {
  if (!path.isAbsolute(value)) return value.split(separators)
  // Not path.relative alone: it would normalise `link/..` away before the link is looked at.
  if (value !== root && !value.startsWith(root + path.sep)) throw outside(given)
  return value.slice(root.length).split(separators)
}

const separators = path.sep === '\\' ? /[\\/]/ : '/'

async function linkTarget(file: string): Promise<string | undefined> {
  try {
    return (await lstat(file)).isSymbolicLink() ? await readlink(file) : undefined
  } catch (error) {
    // Not there, or below a file: the operation itself will say so.
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

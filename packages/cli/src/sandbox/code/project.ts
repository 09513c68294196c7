import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { realpath, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { invalid } from './options.ts'

export interface Project {
  /** Without symbolic links. */
  readonly folder: string
  /** The name of its sandbox, unless --sandbox names another. */
  readonly name: string
  readonly isGit: boolean
  /** The commit that is checked out, if there is one. */
  readonly head?: string
  /** Where its repository is fetched from, if that is another machine. */
  readonly remote?: RemoteHost
}

export interface RemoteHost {
  readonly host: string
  readonly port: number
}

const run = promisify(execFile)

/** The project in a folder. Everything that is asked of git works without hooks of the project. */
export async function projectAt(given: string): Promise<Project> {
  const folder = await realFolder(given)
  if (folder === path.parse(folder).root || folder === (await realpath(homedir()).catch(() => undefined)))
    throw invalid(
      `${folder} is no project: it would upload everything in it.`,
      'Go to the folder of a project.',
    )
  const isGit = (await git(folder, ['rev-parse', '--is-inside-work-tree'])) === 'true'
  const head = isGit ? await git(folder, ['rev-parse', '--verify', '--quiet', 'HEAD']) : undefined
  const remotes = isGit ? await git(folder, ['config', '--get-regexp', '^remote\\..*\\.url$']) : undefined
  return { folder, name: nameOf(folder), isGit, head, remote: remoteOf(remotes) }
}

/** `code-app-1a2b3c`: the hash keeps folders with the same name apart. */
export function nameOf(folder: string): string {
  const base = path.basename(folder).toLowerCase()
  const readable =
    base
      .replace(/[^a-z0-9]+/g, '-')
      .slice(0, 40)
      .replace(/^-+|-+$/g, '') || 'project'
  return `code-${readable}-${createHash('sha256').update(folder).digest('hex').slice(0, 6)}`
}

/** The host of `origin`, or of the first remote. Takes lines of `git config --get-regexp`. */
export function remoteOf(lines: string | undefined): RemoteHost | undefined {
  const remotes = (lines ?? '').split('\n').flatMap((line) => {
    const [, name, url] = /^remote\.(.*)\.url (.+)$/.exec(line) ?? []
    return name === undefined ? [] : [{ name, url: url! }]
  })
  const remote = remotes.find(({ name }) => name === 'origin') ?? remotes[0]
  return remote && hostOf(remote.url)
}

const ports: Readonly<Record<string, number>> = { 'https:': 443, 'http:': 80, 'ssh:': 22, 'git:': 9418 }

function hostOf(url: string): RemoteHost | undefined {
  if (URL.canParse(url) && url.includes('://')) {
    const { protocol, hostname, port } = new URL(url)
    const usual = ports[protocol]
    if (usual === undefined || !isHost(hostname)) return undefined
    return { host: hostname, port: Number(port) || usual }
  }
  // As in git@github.com:owner/name.git. A drive letter is no host.
  const host = /^(?:[^@/:]+@)?([^/:]{2,253}):(?!\/\/)/.exec(url)?.[1]
  return host !== undefined && isHost(host) ? { host, port: 22 } : undefined
}

function isHost(host: string): boolean {
  return /^[a-z0-9][a-z0-9.-]*\.[a-z0-9-]+$/i.test(host) && !/^127\./.test(host)
}

async function realFolder(given: string): Promise<string> {
  const hint = 'Pass the folder of a project, or leave it out for the current one.'
  try {
    const real = await realpath(given)
    if ((await stat(real)).isDirectory()) return real
  } catch (cause) {
    throw new SandboxError('file_not_found', `The folder ${given} cannot be opened.`, { hint, cause })
  }
  throw new SandboxError('not_a_directory', `${given} is not a folder.`, { hint })
}

/** Undefined if git fails, as in a folder without a repository. */
async function git(folder: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const all = ['-C', folder, '-c', 'core.fsmonitor=false', ...args]
    return (await run('git', all, { maxBuffer: 1_048_576, timeout: 30_000 })).stdout.trim()
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') return undefined
    throw new SandboxError('command_not_found', 'git is not installed on this machine.', {
      hint: 'Install it, such as with apt-get install git: it carries changes between here and the sandbox.',
      cause,
    })
  }
}

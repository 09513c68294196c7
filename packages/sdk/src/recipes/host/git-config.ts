import { join } from 'node:path'
import type { Skipped } from '../types.ts'
import { git } from './git.ts'
import type { LocalRepo } from './scan.ts'

/**
 * Copies what makes the repository usable elsewhere: remotes, tracking branches, the committer's name, active
 * submodules. An allow-list: other settings may name programs, paths or secrets of this machine.
 */
export async function copyConfig(
  repo: LocalRepo,
  gitDir: string,
  { signal }: { signal?: AbortSignal | undefined },
): Promise<Skipped[]> {
  const settings = await readConfig(['config', '--local', '-z', '--list'], repo.dir, signal)
  const skipped: Skipped[] = []
  const lines: Array<[key: string, value: string]> = []
  const remotes = new Set<string>()
  for (const [key, value] of settings) {
    const remote = /^remote\.(.+)\.(url|pushurl)$/s.exec(key)
    if (!remote) continue
    const url = publicUrl(value)
    if (url !== undefined) {
      remotes.add(remote[1]!)
      lines.push([key, url])
    } else {
      skipped.push({
        path: inRepo(repo, '.git/config'),
        reason: `the remote “${remote[1]}” is a folder of this machine`,
      })
    }
  }
  for (const [key, value] of settings) {
    const [, section, name, setting] = /^([^.]+)\.(?:(.+)\.)?([^.]+)$/s.exec(key) ?? []
    if (section === 'user' && (setting === 'name' || setting === 'email')) lines.push([key, value])
    if (section === 'remote' && setting === 'fetch' && remotes.has(name ?? '')) lines.push([key, value])
    if (section === 'branch' && setting === 'remote' && (value === '.' || remotes.has(value)))
      lines.push([key, value])
    if (section === 'branch' && (setting === 'merge' || setting === 'rebase')) {
      const follows = settings.find(([other]) => other === `branch.${name}.remote`)?.[1]
      if (follows === '.' || remotes.has(follows ?? '')) lines.push([key, value])
    }
  }
  lines.push(...(await submodules(repo, settings, signal)))
  for (const [key, value] of lines)
    await git(['config', '--file', join(gitDir, 'config'), '--add', key, value], { signal })
  await git(['config', '--file', join(gitDir, 'config'), '--replace-all', 'core.bare', 'false'], { signal })
  return skipped
}

/** The address without passwords and tokens; undefined for a local folder. */
export function publicUrl(address: string): string | undefined {
  if (/^file:/i.test(address) || /^[./~\\]/.test(address) || /^[a-z]:[\\/]/i.test(address)) return undefined
  if (/^[\w+.-]+::/.test(address)) return undefined // A helper program of this machine.
  const scp = /^(?:[^/:@]+@)?[^/:]+:(?!\/\/)/.test(address)
  if (scp) return address
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) return undefined
  let url: URL
  try {
    url = new URL(address)
  } catch {
    return undefined
  }
  const web = /^https?:$/.test(url.protocol)
  // ssh://git@host: the name is part of the address. https://name:token@host: it is a credential.
  const user = web || url.username === '' ? '' : `${url.username}@`
  const path = web ? url.pathname : url.pathname + url.search + url.hash
  return `${url.protocol}//${user}${url.host}${path}`
}

async function submodules(
  repo: LocalRepo,
  settings: ReadonlyArray<[string, string]>,
  signal: AbortSignal | undefined,
): Promise<Array<[string, string]>> {
  const declared = await readConfig(
    ['config', '-z', '--file', join(repo.dir, '.gitmodules'), '--list'],
    repo.dir,
    signal,
  )
  const names = declared.flatMap(([key]) => /^submodule\.(.+)\.path$/s.exec(key)?.[1] ?? [])
  return names.flatMap((name): Array<[string, string]> => {
    const url = settings.find(([key]) => key === `submodule.${name}.url`)?.[1]
    if (url === undefined) return [] // Declared, but never initialised.
    const clean = publicUrl(url)
    return [
      [`submodule.${name}.active`, 'true'],
      ...(clean === undefined ? [] : [[`submodule.${name}.url`, clean] as [string, string]]),
    ]
  })
}

async function readConfig(
  args: string[],
  cwd: string,
  signal: AbortSignal | undefined,
): Promise<Array<[string, string]>> {
  const answer = await git(args, { cwd, accept: [0, 1, 128], signal })
  if (answer.code !== 0) return []
  return answer.stdout
    .toString('utf8')
    .split('\0')
    .filter(Boolean)
    .map((row) => {
      const end = row.indexOf('\n')
      return end === -1 ? [row, 'true'] : [row.slice(0, end), row.slice(end + 1)]
    })
}

const inRepo = (repo: LocalRepo, path: string): string => (repo.path === '' ? path : `${repo.path}/${path}`)

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { LocalProvider } from '../providers/local/index.ts'

/** For the recipes' tests: real repositories, real sandboxes, and an end that leaves nothing. */

process.env.GIT_CONFIG_GLOBAL = '/dev/null'
process.env.GIT_CONFIG_NOSYSTEM = '1'

const identity = {
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
}

const folders: string[] = []

export function tempFolder(name = 'recipes'): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `sk-test-${name}-`)))
  folders.push(folder)
  return folder
}

export function removeTempFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

export function git(cwd: string, ...args: string[]): string {
  const env = { ...process.env, ...identity }
  return execFileSync('git', ['-c', 'init.defaultBranch=main', '-c', 'protocol.file.allow=always', ...args], {
    cwd,
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  }).trimEnd()
}

/** Writes files (`null` removes one); a name that ends in `*` is executable. */
export function write(dir: string, files: Record<string, string | Uint8Array | null>): void {
  for (const [key, content] of Object.entries(files)) {
    const path = join(dir, key.replace(/\*$/, ''))
    if (content === null) {
      rmSync(path)
      continue
    }
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
    if (key.endsWith('*')) chmodSync(path, 0o755)
  }
}

/** A repository with these files in its first commit. */
export function repository(
  files: Record<string, string | Uint8Array> = { 'a.txt': 'one\n' },
  dir = tempFolder('repo'),
): string {
  mkdirSync(dir, { recursive: true })
  git(dir, 'init', '-q')
  write(dir, files)
  git(dir, 'add', '-A')
  git(dir, 'commit', '-q', '-m', 'first')
  return dir
}

export async function localSandbox() {
  const root = tempFolder('sandboxes')
  const provider = new LocalProvider({ root, acceptNoIsolation: true })
  const sandbox = await provider.create()
  return { provider, sandbox, root, dir: sandbox.workdir }
}

/** Every file, link and mode below a folder, with hashes: two equal texts mean two equal trees, byte for byte. */
export function fingerprint(dir: string, options: { without?: RegExp; times?: boolean } = {}): string {
  const lines: string[] = []
  const walk = (path: string) => {
    for (const name of readdirSync(join(dir, path)).sort()) {
      const inside = path === '' ? name : `${path}/${name}`
      if (options.without?.test(inside)) continue
      const facts = lstatSync(join(dir, inside))
      const time = options.times ? ` ${facts.mtimeMs}` : ''
      if (facts.isDirectory()) {
        lines.push(`${inside}/${time}`)
        walk(inside)
      } else if (facts.isSymbolicLink()) lines.push(`${inside} -> ${readlinkSync(join(dir, inside))}`)
      else
        lines.push(
          `${inside} ${(facts.mode & 0o777).toString(8)} ${createHash('sha256')
            .update(readFileSync(join(dir, inside)))
            .digest('hex')}${time}`,
        )
    }
  }
  walk('')
  return lines.join('\n')
}

/** What of ours is left in the system's temporary folder. */
export function leftovers(): string[] {
  return readdirSync(tmpdir()).filter((name) => /^sandkasten-[A-Za-z0-9]{6}$/.test(name))
}

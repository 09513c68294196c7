import { execFile } from 'node:child_process'
import { existsSync, globSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { run } from './tools.ts'

const keys = '/usr/share/keyrings/debian-archive-keyring.gpg'

/**
 * Unpacks packages of another Debian suite into a folder, from this machine's own archives. apt stores the lists of that suite
 * in a temporary folder, so the machine does not change. Unpacks nothing if apt fails.
 */
export async function unpackFromSuite(
  suite: string,
  packages: readonly string[],
  into: string,
): Promise<void> {
  const archives = await debianArchives()
  if (archives.length === 0) return
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-apt-'))
  try {
    for (const name of ['lists/partial', 'cache/archives/partial', 'none', 'packages'])
      mkdirSync(path.join(folder, name), { recursive: true })
    const sources = path.join(folder, 'sources.list')
    const signed = existsSync(keys) ? `[signed-by=${keys}] ` : ''
    writeFileSync(sources, archives.map((archive) => `deb ${signed}${archive} ${suite} main\n`).join(''))
    const settings = [
      ['Dir::Etc::SourceList', sources],
      ['Dir::Etc::SourceParts', path.join(folder, 'none')],
      ['Dir::State::Lists', path.join(folder, 'lists')],
      ['Dir::Cache', path.join(folder, 'cache')],
      ['APT::Sandbox::User', 'root'],
    ].flatMap(([name, value]) => ['-o', `${name}=${value}`])
    const here = { cwd: path.join(folder, 'packages'), env: { DEBIAN_FRONTEND: 'noninteractive' } }
    if ((await run('apt-get', ['update', '-qq', ...settings], here)) !== 0) return
    if ((await run('apt-get', ['download', '-qq', ...settings, ...packages], here)) !== 0) return
    mkdirSync(into, { recursive: true })
    for (const file of globSync('*.deb', { cwd: here.cwd }))
      await run('dpkg-deb', ['--extract', path.join(here.cwd, file), into])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The archives of this machine's Debian packages. */
async function debianArchives(): Promise<string[]> {
  const asked = ['Created-By: Packages', 'Origin: Debian', 'Label: Debian', 'Component: main']
  const list = promisify(execFile)('apt-get', ['indextargets', '--format', '$(REPO_URI)', ...asked])
  const { stdout } = await list.catch(() => ({ stdout: '' }))
  return [...new Set(stdout.split('\n').filter(Boolean))].slice(0, 1)
}

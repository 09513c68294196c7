/** Functions of `npm start` and `npm test` that use apt. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { run } from './tools.ts'

export function mayUseApt(): boolean {
  return process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
}

export const quietly = { env: { DEBIAN_FRONTEND: 'noninteractive' }, uninterruptible: true, toStderr: true }

export function updateLists(): Promise<number> {
  return run('apt-get', ['update', '-qq'], quietly)
}

/** Repeats `work` after `apt-get update` if it fails: a new machine has no package lists. */
export async function withFreshLists(work: () => Promise<number>): Promise<number> {
  if ((await work()) === 0) return 0
  const updated = await updateLists()
  return updated === 0 ? work() : updated
}

/** The version that apt would install; undefined if there is no such package. */
export async function candidateOf(name: string): Promise<string | undefined> {
  const text = await output('apt-cache', ['policy', name])
  const version = /^ {2}Candidate: (\S+)$/m.exec(text)?.[1]
  return version === '(none)' ? undefined : version
}

/** Installed packages that these packages would remove. */
export async function replacedBy(packages: readonly string[]): Promise<string[]> {
  const text = await output('apt-get', ['install', '--simulate', '-qq', ...settings, ...packages])
  return [...text.matchAll(/^Remv (\S+)/gm)].map(([, name]) => name!)
}

export async function installPackages(packages: readonly string[]): Promise<number> {
  if (packages.includes('postgresql')) keepPostgresQuiet()
  return withFreshLists(() =>
    withoutServices(() => run('apt-get', ['install', '-y', '-qq', ...settings, ...packages], quietly)),
  )
}

const settings = ['--no-install-recommends']

async function output(program: string, args: readonly string[]): Promise<string> {
  const env = { ...process.env, LC_ALL: 'C' }
  const { stdout } = await promisify(execFile)(program, [...args], { env }).catch(() => ({ stdout: '' }))
  return stdout
}

const policy = '/usr/sbin/policy-rc.d'
const mark = '# made by Sandkasten’s npm scripts'

/**
 * Debian starts the services of packages that it installs. The tests start their own, so this policy file forbids it during
 * the installation. It applies only while this process runs, so a file left by a killed process has no effect.
 */
async function withoutServices(install: () => Promise<number>): Promise<number> {
  if (existsSync(policy) && !readFileSync(policy, 'utf8').includes(mark)) return install()
  writeFileSync(policy, `#!/bin/sh\n${mark}\n[ -d /proc/${process.pid} ] && exit 101\nexit 0\n`, {
    mode: 0o755,
  })
  try {
    return await install()
  } finally {
    rmSync(policy, { force: true })
  }
}

/** Debian's Postgres package creates and starts a server for the whole machine; the tests start their own. */
function keepPostgresQuiet(): void {
  const folder = '/etc/postgresql-common/createcluster.d'
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/sandkasten.conf`, 'create_main_cluster = false\n')
}

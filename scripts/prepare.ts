/**
 * What the tests need from the machine: on Debian as root it is installed; elsewhere it is said what is missing and
 * what will be skipped for it.
 */
import { accessSync, constants, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { run } from './tools.ts'

const programs = [
  { program: 'crun', package: 'crun', without: 'isolated sandboxes (isolator oci)' },
  { program: 'pasta', package: 'passt', without: 'sandboxes with the network open' },
  { program: 'pg_createcluster', package: 'postgresql', without: 'the daemon’s store on Postgres' },
] as const

export async function prepare(): Promise<number> {
  if (process.platform !== 'linux') {
    console.log(`This is ${process.platform}: isolated sandboxes need Linux, and are skipped.`)
    return 0
  }
  return installMissing(programs.map(({ program }) => program))
}

/** Installs those of these programs that are missing, where it may; elsewhere says what will be missing without them. */
export async function installMissing(wanted: readonly string[]): Promise<number> {
  const missing = programs.filter(({ program }) => wanted.includes(program) && !onPath(program))
  if (missing.length === 0) {
    console.log(`${wanted.join(' and ')} ${wanted.length === 1 ? 'is' : 'are'} here.`)
    return 0
  }
  const packages: string[] = missing.map((one) => one.package)
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    console.log(`Without: ${missing.map(({ without }) => without).join(', ')}.`)
    console.log(`To have them too: as root, apt-get install ${packages.join(' ')}.`)
    return 0
  }
  const quietly = { env: { DEBIAN_FRONTEND: 'noninteractive' } }
  if (packages.includes('postgresql')) keepPostgresQuiet()
  const install = () =>
    run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], quietly)
  if ((await install()) === 0) return 0
  const updated = await run('apt-get', ['update', '-qq'], quietly)
  return updated === 0 ? install() : updated
}

/** Installing Postgres on Debian makes and starts a server for the whole machine; the tests start their own. */
function keepPostgresQuiet(): void {
  const folder = '/etc/postgresql-common/createcluster.d'
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/sandkasten.conf`, 'create_main_cluster = false\n')
}

/** Cargo builds the runner; without it nothing isolated can be tested. */
export function hasCargo(): boolean {
  return onPath('cargo')
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '').split(path.delimiter).some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/**
 * What the tests need from the machine: on Debian as root it is installed; elsewhere it is said what is missing and
 * what will be skipped for it.
 */
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { run } from './tools.ts'

const programs = [
  { program: 'crun', package: 'crun', without: 'isolated sandboxes (isolator oci)' },
  { program: 'pasta', package: 'passt', without: 'sandboxes with the network open' },
  { program: 'dockerd', package: 'docker.io', without: 'sandboxes of a Docker daemon (isolator docker)' },
  { program: 'podman', package: 'podman', without: 'sandboxes of Podman (isolator docker)' },
] as const

export async function prepare(): Promise<number> {
  if (process.platform !== 'linux') {
    console.log(`This is ${process.platform}: isolated sandboxes need Linux, and are skipped.`)
    return 0
  }
  const missing = programs.filter(({ program }) => !onPath(program))
  if (missing.length === 0) {
    console.log(`${programs.map(({ program }) => program).join(', ')} are here.`)
    return 0
  }
  const packages = missing.map((one) => one.package)
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    console.log(`Skipped will be: ${missing.map(({ without }) => without).join(', ')}.`)
    console.log(`To run them too: as root, apt-get install ${packages.join(' ')}, then sudo -E npm test.`)
    return 0
  }
  const quietly = { env: { DEBIAN_FRONTEND: 'noninteractive' } }
  const install = () =>
    withoutServices(() =>
      run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], quietly),
    )
  if ((await install()) === 0) return 0
  const updated = await run('apt-get', ['update', '-qq'], quietly)
  return updated === 0 ? install() : updated
}

const policy = '/usr/sbin/policy-rc.d'

/** Debian starts what it installs. The tests start daemons of their own, and want none of the machine's: while this file says so, none is started. */
async function withoutServices(install: () => Promise<number>): Promise<number> {
  if (existsSync(policy)) return install()
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    return await install()
  } finally {
    rmSync(policy, { force: true })
  }
}

/** Cargo builds the runner; without it nothing isolated can be tested. */
export function hasCargo(): boolean {
  return onPath('cargo')
}

function onPath(program: string): boolean {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin', '/sbin']
  return folders.some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Installs the programs that the tests need, on Debian as root. Elsewhere the tests that need them are skipped. */
import { accessSync, constants, existsSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { mayUseApt, quietly, withFreshLists } from './debian.ts'
import { type InstallOptions, installMissing, type Missing, missingRust } from './install.ts'
import { unpackFromSuite } from './other-suite.ts'
import { root, run } from './tools.ts'

const programs = [
  { program: 'crun', package: 'crun', without: 'isolated sandboxes (isolator oci)' },
  { program: 'runc', package: 'runc', without: 'isolated sandboxes on runc' },
  { program: 'pasta', package: 'passt', without: 'sandboxes with the network open' },
  { program: 'dockerd', package: 'docker.io', without: 'sandboxes of a Docker daemon (isolator docker)' },
  { program: 'podman', package: 'podman', without: 'sandboxes of Podman (isolator docker)' },
  { program: 'newuidmap', package: 'uidmap', without: 'sandboxes of an ordinary account' },
  { program: 'pg_createcluster', package: 'postgresql', without: 'the daemon’s store on Postgres' },
  { program: 'sshd', package: 'openssh-server', without: 'sandboxes on an SSH host' },
  { program: 'skopeo', package: 'skopeo', without: 'pulling images' },
  { program: 'ip', package: 'iproute2', without: 'network policies, and the network open, with stand-ins' },
  { program: 'openssl', package: 'openssl', without: 'network policies with TLS' },
  { program: 'pip3', package: 'python3-pip', without: 'pip through a network policy' },
  { program: 'go', package: 'golang-go', without: 'Go through a network policy' },
  { program: 'javac', package: 'default-jdk-headless', without: 'Java through a network policy' },
] as const

/**
 * Unpacked beside the tests, not installed: one would start a service, another would replace the machine's busybox.
 * `packages/engine/src/images/testing/tools.ts` and tests of the registry find them there.
 */
const tools = path.join(root, 'node_modules/.cache/sandkasten-tools')
const unpacked = [
  { file: 'usr/bin/docker-registry', package: 'docker-registry', without: 'pulling images from a registry' },
  {
    file: `usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`,
    package: 'libfaketime',
    without: 'a clock that is set while a process works',
  },
  { file: 'bin/busybox', package: 'busybox-static', without: 'sandboxes of an image with only busybox' },
] as const

/** Debian 12's version is too old for current kernels, as `sandkasten doctor` reports. This newer one needs no newer libraries. */
const newer = {
  suite: 'trixie',
  file: 'usr/bin/runsc',
  package: 'runsc',
  without: 'sandboxes in a gVisor (isolator oci with the runtime runsc)',
} as const

export async function prepare(options: InstallOptions): Promise<number> {
  if (process.platform !== 'linux') {
    console.log(`This is ${process.platform}: isolated sandboxes need Linux, and are skipped.`)
    return 0
  }
  const rust = await missingRust()
  const missing = [...missingPrograms(programs.map(({ program }) => program)), ...(rust ? [rust] : [])]
  const code = await installMissing(missing, options)
  if (code !== 0) return code
  await unpackNewer()
  return unpack()
}

/** The programs that this machine lacks. */
export function missingPrograms(wanted: readonly string[]): Missing[] {
  return programs
    .filter(({ program }) => wanted.includes(program) && !onPath(program))
    .map(({ package: name, without }) => ({ packages: [name], why: without }))
}

/**
 * Fails where apt can be used and cannot download a program: other tests expect the tests that need it not to be skipped.
 * Elsewhere, the tests that need a missing program report that they were skipped.
 */
export async function unpack(into = tools): Promise<number> {
  const missing = unpacked.filter(({ file }) => !existsSync(path.join(into, file)))
  if (missing.length === 0) return 0
  const packages = missing.map((one) => one.package)
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-tools-'))
  try {
    const download = () =>
      run('apt-get', ['download', '-qq', '-o', 'APT::Sandbox::User=root', ...packages], {
        ...quietly,
        cwd: folder,
      })
    if (mayUseApt() && (await withFreshLists(download)) === 0) {
      mkdirSync(into, { recursive: true })
      for (const file of globSync('*.deb', { cwd: folder }))
        await run('dpkg-deb', ['--extract', path.join(folder, file), into])
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const absent = missing.filter(({ file }) => !existsSync(path.join(into, file)))
  if (mayUseApt() && absent.length > 0) {
    const names = absent.map((one) => one.package).join(' ')
    console.error(
      `apt-get cannot download ${names}. Check the network and /etc/apt, and run npm test again. The tests need it for:`,
    )
    for (const { file, without } of absent) console.error(`  ${without} (${path.join(into, file)})`)
    return 1
  }
  for (const { without, package: name } of absent)
    console.log(`Tests will be skipped: ${without} (Debian’s ${name} is not available).`)
  return 0
}

async function unpackNewer(): Promise<void> {
  const isHere = () => existsSync(path.join(tools, newer.file))
  if (isHere()) return
  if (mayUseApt()) await withFreshLists(async () => unpackFrom())
  if (!isHere())
    console.log(`Tests will be skipped: ${newer.without} (Debian 13’s ${newer.package} is not available).`)
}

/** Returns an error code if the program is still missing afterwards. */
async function unpackFrom(): Promise<number> {
  await unpackFromSuite(newer.suite, [newer.package], tools)
  return existsSync(path.join(tools, newer.file)) ? 0 : 1
}

/** Debian installs some programs in folders that only root's PATH contains. */
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

/**
 * The internet and the host of one engine, in network namespaces without any other link.
 *
 * ```text
 * host: an engine, its gateway and its sandboxes  ── cable ──  internet: stand-in servers at every address, a sniffer
 * ```
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ABSTRACT_SOCKET, DAEMON, HOST, INTERNET, RESOLVER, ROUTER } from './addresses.ts'
import { type Authority, createAuthority } from './authority.ts'
import type { Reached } from './records.ts'

export interface World extends AsyncDisposable {
  readonly folder: string
  readonly authority: Authority
  /** A Unix socket of the host. */
  readonly socketPath: string
  /** Everything that reached a stand-in. */
  readonly records: readonly Reached[]
  /** The beginning of a command that runs on the host. */
  readonly enter: readonly string[]
  /** Starts a program on the host or in the internet. It ends with the world. */
  start(place: 'host' | 'internet', command: readonly string[], env?: NodeJS.ProcessEnv): ChildProcess
  /** Waits until the stand-ins have handled what was sent so far. Throws if one of them has ended. */
  settle(): Promise<void>
}

export interface WorldOptions {
  /** Record every packet on the cable. Default true; slow for a benchmark. */
  readonly sniff?: boolean
  /** A daemon on the host. Default false. */
  readonly daemon?: boolean
}

/** Why the world cannot be made on this machine. Undefined if it can. */
export function worldMissing(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'network namespaces need root on Linux'
  for (const [program, name] of Object.entries({ ip: 'iproute2', openssl: 'openssl', python3: 'python3' }))
    if (
      !['/usr/bin', '/usr/sbin', '/sbin', '/usr/local/bin'].some((folder) =>
        existsSync(join(folder, program)),
      )
    )
      return `${program} is not installed: apt-get install ${name}`
  return undefined
}

export async function openWorld({ sniff = true, daemon = false }: WorldOptions = {}): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'skt-world-'))
  chmodSync(folder, 0o755)
  const records: Reached[] = []
  const failures: string[] = []
  const children: ChildProcess[] = []
  const spaces = { host: join(folder, 'host'), internet: join(folder, 'internet') }

  // Not `ip netns exec`, which hides the control groups.
  const enter = (place: keyof typeof spaces) => {
    // The host's programs see the world's resolver and authority instead of the machine's.
    const prepare =
      place === 'host'
        ? `mount --bind ${folder}/resolv.conf /etc/resolv.conf
           mount --bind ${folder}/bundle.pem /etc/ssl/certs/ca-certificates.crt`
        : ''
    const script = `set -e; mount --make-rprivate /; ${prepare}\nexec "$@"`
    return ['nsenter', `--net=${spaces[place]}`, 'unshare', '--mount', 'sh', '-c', script, 'sh']
  }
  const start: World['start'] = (place, command, env = process.env) => {
    const child = spawn('setpriv', ['--pdeathsig', 'TERM', ...enter(place), ...command], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env,
    })
    children.push(child)
    return child
  }

  const standIn = async (place: 'host' | 'internet', command: readonly string[]) => {
    const child = start(place, command)
    const lines = createInterface({ input: child.stdout! })
    const ready = new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => {
        const record = JSON.parse(line)
        if (record.ready) resolve()
        else records.push(record)
      })
      child.once('exit', (code) => {
        const failure = `${command.join(' ')} ended with ${code}`
        failures.push(failure)
        reject(new Error(failure))
      })
    })
    await ready
  }

  async function close(): Promise<void> {
    for (const child of children.splice(0).reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill()
      await once(child, 'exit')
    }
    for (const space of Object.values(spaces)) if (existsSync(space)) release(space)
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }

  try {
    const authority = createAuthority(folder)
    writeFileSync(join(folder, 'resolv.conf'), `nameserver ${RESOLVER}\n`)
    for (const space of Object.values(spaces)) createNamespace(space)
    connect(spaces)
    const node = (file: string, ...args: string[]) => [
      process.execPath,
      join(import.meta.dirname, file),
      ...args,
    ]
    const socketPath = join(folder, 'host.sock')
    await Promise.all([
      standIn('internet', node('stand-ins.ts', authority.certificate, authority.key, folder)),
      standIn('host', node('host-services.ts', ABSTRACT_SOCKET, socketPath)),
      ...(daemon
        ? [
            standIn('host', [
              ...[process.execPath, '--conditions=sandkasten-source'],
              ...[join(import.meta.dirname, 'daemon.ts'), join(folder, 'daemon'), JSON.stringify(DAEMON)],
            ]),
          ]
        : []),
      ...(sniff ? [standIn('internet', ['python3', join(import.meta.dirname, 'sniffer.py'), 'eth0'])] : []),
    ])
    return {
      folder,
      authority,
      socketPath,
      enter: enter('host'),
      records,
      start,
      async settle() {
        await new Promise((resolve) => setTimeout(resolve, 250))
        if (failures.length > 0) throw new Error(failures.join('\n'))
      },
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** A named namespace, at a path of the world's folder instead of `/run/netns`. */
function createNamespace(path: string): void {
  writeFileSync(path, '')
  execFileSync('unshare', [`--net=${path}`, 'true'])
}

function release(path: string): void {
  try {
    execFileSync('umount', [path], { stdio: 'ignore' })
  } catch {
    // It was never mounted.
  }
}

function connect({ host, internet }: { host: string; internet: string }): void {
  const ip = (space: string, lines: readonly string[]) =>
    execFileSync('nsenter', [`--net=${space}`, 'ip', '-batch', '-'], {
      input: `${lines.join('\n')}\n`,
      stdio: ['pipe', 'ignore', 'pipe'],
    })
  const add = (device: string, cidr: string) =>
    `address add ${cidr} dev ${device}${cidr.includes(':') ? ' nodad' : ''}`
  const whole = (address: string) => `${address}/${address.includes(':') ? 128 : 32}`
  ip(host, [`link add eth0 type veth peer name eth0 netns ${internet}`])
  ip(internet, [
    'link set lo up',
    'link set eth0 addrgenmode none',
    'link set eth0 up',
    ...[`${ROUTER.lan}/24`, `${ROUTER.v6}/64`, `${ROUTER.linkLocal}/64`].map((cidr) => add('eth0', cidr)),
    ...INTERNET.map((address) => add('lo', whole(address))),
    `route add ${HOST.public} via ${HOST.lan}`,
  ])
  // A program may ping, and packets may name their way: both must be the sandbox's walls, not the host's.
  const set = (space: string, name: string, value: string) =>
    execFileSync('nsenter', [`--net=${space}`, 'sh', '-c', `echo "${value}" > /proc/sys/net/ipv4/${name}`])
  set(host, 'ping_group_range', '0 2147483647')
  for (const device of ['all', 'eth0', 'lo']) set(internet, `conf/${device}/accept_source_route`, '1')
  ip(host, [
    'link set lo up',
    'link set eth0 addrgenmode none',
    'link set eth0 up',
    ...[`${HOST.lan}/24`, `${HOST.v6}/64`, `${HOST.linkLocal}/64`, `${HOST.public}/32`].map((cidr) =>
      add('eth0', cidr),
    ),
    `route add default via ${ROUTER.lan}`,
    `route add ::/0 via ${ROUTER.v6}`,
  ])
}

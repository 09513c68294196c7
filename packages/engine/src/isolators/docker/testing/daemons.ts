/**
 * A private Docker daemon or Podman service, for tests and the benchmark. It neither uses nor changes a daemon that
 * the machine already has.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findProgram } from '../../oci/launch/find-program.ts'

export interface PrivateDaemon {
  readonly socketPath: string
  /** The machine's files as the daemon sees them. */
  readonly root: string
  /** The control group that its containers are in. */
  readonly group: string
  /** Stops the daemon and removes all its processes and mounts. */
  stop(): Promise<void>
}

const START_MS = 60_000
const STOP_MS = 15_000

/** Why the daemon cannot start on this machine. Undefined if it can. */
export function dockerMissing(): string | undefined {
  return missing('a private dockerd', ['dockerd', 'containerd', 'runc'], 'docker.io')
}

export function podmanMissing(): string | undefined {
  return missing('a private Podman', ['podman', 'conmon', 'crun'], 'podman crun')
}

export interface DaemonOptions {
  readonly group?: string
  /** Remapped ids: dockerd gives all containers the same range; Podman gives each container its own on request. */
  readonly remap?: boolean
  /** Podman: the OCI runtime. Default: crun. */
  readonly runtime?: string
  /** A command that starts the daemon in other namespaces. */
  readonly enter?: readonly string[]
  /** dockerd: give containers a bridge, which changes the packet filter of the namespace. */
  readonly bridge?: boolean
}

export async function startDockerd(folder: string, options: DaemonOptions = {}): Promise<PrivateDaemon> {
  const { group = groupName(), remap = false, enter = [], bridge = false } = options
  const socketPath = join(folder, 'docker.sock')
  mkdirSync(join(folder, 'exec'), { recursive: true, mode: 0o711 })
  writeFileSync(join(folder, 'daemon.json'), '{}')
  return start(
    folder,
    group,
    // Otherwise dockerd uses the machine's containerd and settings.
    `${remap ? showIds(folder) : ''}
     if [ -d /etc/docker ]; then mount -t tmpfs -o mode=755 tmpfs /etc/docker; fi`,
    [
      ...['dockerd', '-H', `unix://${socketPath}`],
      ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')],
      ...['--pidfile', join(folder, 'pid'), '--config-file', join(folder, 'daemon.json')],
      ...(bridge ? [] : ['--bridge=none', '--iptables=false', '--ip6tables=false']),
      ...['--storage-driver', 'overlay2'],
      ...['--cgroup-parent', `/${group}`],
      ...(remap ? ['--userns-remap', 'dockremap'] : []),
    ],
    socketPath,
    enter,
  )
}

/** crun refuses to start where cgroup v1 and v2 are both mounted, so hide v2, which has no controllers there. */
export async function startPodman(folder: string, options: DaemonOptions = {}): Promise<PrivateDaemon> {
  const { group = groupName(), remap = false, runtime = 'crun', enter = [] } = options
  const socketPath = join(folder, 'podman.sock')
  const places = `graphroot = "${join(folder, 'data')}"\nrunroot = "${join(folder, 'run')}"\n`
  writeFileSync(join(folder, 'storage.conf'), `[storage]\ndriver = "overlay"\n${places}`)
  return start(
    folder,
    group,
    `${remap ? showIds(folder) : ''}
     export CONTAINERS_STORAGE_CONF=${join(folder, 'storage.conf')}
     if [ -d /sys/fs/cgroup/memory ] && [ -d /sys/fs/cgroup/unified ]; then umount /sys/fs/cgroup/unified; fi`,
    [
      ...['podman', '--root', join(folder, 'data'), '--runroot', join(folder, 'run')],
      ...['--tmpdir', join(folder, 'tmp'), '--storage-driver', 'overlay', '--events-backend', 'file'],
      ...['--cgroup-manager', 'cgroupfs', '--runtime', runtime],
      ...['system', 'service', '--time', '0', `unix://${socketPath}`],
    ],
    socketPath,
    enter,
  )
}

/**
 * Users and ranges that only this daemon sees, in a copy of `/etc`. Single files cannot be mounted over: a `useradd`
 * elsewhere on the machine replaces `/etc/passwd`, and the kernel then drops mounts on the old file in every namespace.
 */
function showIds(folder: string): string {
  const ranges = 'dockremap:268435456:65536\ncontainers:536870912:1073741824\n'
  const etc = join(folder, 'etc')
  cpSync('/etc', etc, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
  writeFileSync(join(etc, 'subuid'), ranges)
  writeFileSync(join(etc, 'subgid'), ranges)
  appendFileSync(join(etc, 'passwd'), 'dockremap:x:64999:64999::/nonexistent:/bin/false\n')
  appendFileSync(join(etc, 'group'), 'dockremap:x:64999:\n')
  return `mount --bind ${etc} /etc`
}

/**
 * Runs the daemon in a mount namespace, so its mounts end with it. `/run` is empty there, because containerd always
 * uses `/run/containerd`. /dev/null is private, because runtimes change the owner of their standard input. If this
 * process is killed, the daemon gets SIGTERM.
 */
async function start(
  folder: string,
  group: string,
  prepare: string,
  command: readonly string[],
  socketPath: string,
  enter: readonly string[],
): Promise<PrivateDaemon> {
  // The root of a container may be an unknown user here and must pass through this folder.
  chmodSync(folder, 0o711)
  const script = `set -e
    mount -t tmpfs -o mode=755 tmpfs /run
    mknod -m 666 /run/null c 1 3
    mount --bind /run/null /dev/null
    ${prepare}
    exec "$@"`
  const log = openSync(join(folder, 'log'), 'a')
  const child = spawn(
    'setpriv',
    [
      ...['--pdeathsig', 'TERM', ...enter, 'unshare', '-m', '--propagation', 'private'],
      ...['sh', '-c', script, 'sh', ...command],
    ],
    // Podman's conmon writes files into the working directory, and imports stay in TMPDIR.
    { stdio: ['ignore', log, log], detached: true, cwd: folder, env: { ...process.env, TMPDIR: folder } },
  )
  closeSync(log)
  const stop = async () => {
    await end(child)
    await removeGroups(group)
  }
  try {
    await answers(child, socketPath)
  } catch (cause) {
    await stop()
    const said = readFileSync(join(folder, 'log'), 'utf8').trim().split('\n').slice(-5).join('\n')
    removeDaemonFolder(folder)
    throw new Error(`${command[0]} did not start:\n${said}`, { cause })
  }
  return { socketPath, root: `/proc/${child.pid}/root`, group, stop }
}

async function answers(child: ChildProcess, socketPath: string): Promise<void> {
  const deadline = Date.now() + START_MS
  while (Date.now() < deadline && child.exitCode === null && child.signalCode === null) {
    if (await ping(socketPath)) return
    await sleep(50)
  }
  throw new Error(`no answer on ${socketPath}`)
}

function ping(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath, () => socket.write('GET /_ping HTTP/1.0\r\nHost: d\r\n\r\n'))
    let text = ''
    socket.setEncoding('utf8')
    socket.setTimeout(5000, () => socket.destroy())
    socket.on('data', (chunk: string) => {
      text += chunk
    })
    socket.on('error', () => resolve(false))
    socket.on('close', () => resolve(/^HTTP\/1\.\d 200/.test(text)))
  })
}

/** Stops the daemon, then kills the processes left in its mount namespace: containers' parents outlive the daemon. */
async function end(child: ChildProcess): Promise<void> {
  const namespace = child.pid === undefined ? undefined : namespaceOf(child.pid)
  if (namespace === namespaceOf(process.pid)) throw new Error('the daemon is not in its own mount namespace')
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await Promise.race([exited, sleep(STOP_MS, undefined, { ref: false })])
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  }
  if (namespace !== undefined) await endAll((pid) => namespaceOf(pid) === namespace)
}

async function removeGroups(group: string): Promise<void> {
  await endAll((pid) => readOr(`/proc/${pid}/cgroup`).includes(`/${group}/`))
  const mounts = readOr('/proc/self/mountinfo').split('\n')
  const roots = mounts.filter((line) => / - cgroup2? /.test(line)).map((line) => line.split(' ')[4]!)
  for (const root of roots) await removeGroup(join(root, group))
}

/** A group is busy until its last zombie is reaped. PID 1 of some machines reaps only every two seconds. */
async function removeGroup(path: string): Promise<void> {
  if (!existsSync(path)) return
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) await removeGroup(join(path, entry.name))
  for (let attempt = 0; ; attempt += 1) {
    try {
      return rmdirSync(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return
      if (code !== 'EBUSY' || attempt > 1500) throw error
      await sleep(20)
    }
  }
}

async function endAll(isOurs: (pid: string) => boolean): Promise<void> {
  const find = () =>
    readdirSync('/proc')
      .filter((entry) => /^\d+$/.test(entry) && /^State:\s+[^ZX]/m.test(readOr(`/proc/${entry}/status`)))
      .filter((pid) => isOurs(pid) && Number(pid) !== process.pid)
  for (let attempt = 0; attempt < 250; attempt += 1) {
    const found = find()
    if (found.length === 0) return
    for (const pid of found) {
      try {
        process.kill(Number(pid), 'SIGKILL')
      } catch {
        // The process has exited.
      }
    }
    await sleep(20)
  }
  throw new Error(`processes ${find().join(', ')} do not end`)
}

/** The daemon's mounts ended with its namespace. */
export function removeDaemonFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
}

const groupName = () => `sktest-${randomBytes(4).toString('hex')}`

function missing(what: string, programs: readonly string[], packages: string): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return `${what} needs root on Linux`
  for (const program of programs) {
    try {
      findProgram(program)
    } catch {
      return `${program} is not installed: apt-get install ${packages}`
    }
  }
  return undefined
}

function namespaceOf(pid: number | string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`)
  } catch {
    return undefined
  }
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

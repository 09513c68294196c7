/** Creates an account on this machine for a test and runs programs as it. Needs root. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { accountOf } from '../privileges/account.ts'
import { readOr } from './bench.ts'

const run = promisify(execFile)

export interface TemporaryAccount extends AsyncDisposable {
  readonly uid: number
  readonly home: string
  /** Runs a program with the checkout at `home/../checkout` and a clean environment. Resolves to its output. */
  run(command: readonly string[], env: Readonly<Record<string, string>>, group?: string): Promise<string>
  /** The command that `run` runs. */
  commandLine(command: readonly string[], env: Readonly<Record<string, string>>, group?: string): string[]
}

export async function temporaryAccount(options: {
  readonly checkout: string
  readonly range: boolean
}): Promise<TemporaryAccount> {
  const name = `skt${randomBytes(5).toString('hex')}`
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  const [home, checkout] = [join(folder, 'home'), join(folder, 'checkout')]
  // A supplementary group that sandboxes must not inherit.
  const flags = ['--system', '--no-create-home', '--home-dir', home, '--groups', 'games']
  await locked('useradd', [...flags, '--shell', '/usr/sbin/nologin', name])
  if (options.range) {
    const fix = accountOf({ uid: 0, gid: 0, name }, read('/etc/subuid'), read('/etc/subgid'), true).lacks[0]!
      .fix
    const [program, ...args] = fix.split(' ')
    await locked(program!, args)
  }
  const uid = Number((await run('id', ['-u', name])).stdout)
  const gid = Number((await run('id', ['-g', name])).stdout)
  for (const path of [folder, checkout, home]) mkdirSync(path, { recursive: true })
  await run('chmod', ['755', folder])
  chownSync(home, uid, gid)
  let gone = false
  const commandLine: TemporaryAccount['commandLine'] = (command, env, group = '') => {
    // The account may lack access to the checkout's parents and to /dev/net/tun, so it gets its own mount namespace.
    // Once Podman has run as root, only root can read /run/containers, where skopeo looks for credentials.
    const script = `[ -z "$1" ] || echo $$ > "$1/cgroup.procs"; shift
      mount --bind "$1" "$2"
      if [ -d /dev/net ]; then mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200; fi
      [ ! -d /run/containers ] || mount -t tmpfs -o mode=755 tmpfs /run/containers
      cd "$2"; shift 2; exec setpriv --reuid "$1" --regid "$2" --init-groups --inh-caps=-all -- env -i "\${@:3}"`
    const environment = Object.entries({ HOME: home, USER: name, TMPDIR: '/tmp', ...env })
    return [
      ...['unshare', '--mount', '--propagation', 'private', 'bash', '-ec', script, 'bash'],
      ...[group, options.checkout, checkout, String(uid), String(gid)],
      ...environment.map(([key, value]) => `${key}=${value}`),
      ...command,
    ]
  }
  return {
    uid,
    home,
    commandLine,
    async run(command, env, group) {
      const [program = '', ...args] = commandLine(command, env, group)
      return (await run(program, args, { maxBuffer: 64 * 1024 * 1024 })).stdout
    },
    async [Symbol.asyncDispose]() {
      if (gone) return
      gone = true
      const first = Number(new RegExp(`^${name}:(\\d+):`, 'm').exec(read('/etc/subuid'))?.[1] ?? 0)
      for (let tries = 0; tries < 100 && killAll(uid, first); tries++) await sleep(20)
      await locked('userdel', [name])
      for (const path of [folder, `/tmp/sandkasten-engine-${uid}`, `/tmp/sandkasten-${uid}`])
        rmSync(path, { recursive: true, force: true })
    },
  }
}

/** Kills processes by the ids that only this account has. Returns false when none is left. */
function killAll(uid: number, first: number): boolean {
  let found = false
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const status = readOr(`/proc/${pid}/status`) ?? ''
    const owner = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1)
    const ours = owner === uid || (first > 0 && owner >= first && owner < first + 65536)
    if (!ours || /^State:\s+[ZX]/m.test(status)) continue
    found = true
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // The process has exited.
    }
  }
  return found
}

/** Retries, because another process may hold the lock of the account files. */
async function locked(program: string, args: readonly string[]): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await run(program, args)
      return
    } catch (error) {
      if (tries === 50) throw error
      await sleep(100)
    }
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

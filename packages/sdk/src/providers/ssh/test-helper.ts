import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'
import { SshProvider, type SshProviderOptions } from './index.ts'

/**
 * A real OpenSSH server with keys and a configuration of its own. We listen (the system chooses the port) and start an `sshd -i` for each
 * connection, as inetd would: so a connection is a process that a test can end, and nothing is left when the test ends.
 */
export interface TestSshd extends AsyncDisposable {
  readonly port: number
  readonly folder: string
  readonly username: string
  readonly home: string
  readonly keyFile: string
  readonly knownHosts: string
  readonly hostKeyFile: string
  /** What sshd has said. */
  log(): string
  options(more?: Partial<SshProviderOptions>): SshProviderOptions
  provider(more?: Partial<SshProviderOptions>): SshProvider
  /** Cuts all connections, as a network does: sshd is killed in the middle. */
  cut(): number
  /** How many connections there were. */
  connections(): number
  /** Connections are taken and nothing is said on them. */
  mute(silent: boolean): void
}

export const sshdProgram = ['/usr/sbin/sshd', '/usr/bin/sshd'].find((file) => existsSync(file))

export interface SshdOptions {
  /** An account made for the test; otherwise the tests' own. Root only. */
  ordinary?: boolean
  config?: readonly string[]
  bashrc?: string
  /** The account's shell. */
  shell?: string
  /** What its commands have in PATH. */
  path?: string
}

export async function startSshd(options: SshdOptions = {}): Promise<TestSshd> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-ssh-'))
  chmodSync(folder, 0o755)
  const home = path.join(folder, 'home')
  mkdirSync(home, { mode: 0o700 })
  const account = options.ordinary ? makeAccount(home, options.shell ?? '/bin/bash') : undefined
  const username = account ?? userInfo().username
  const file = (name: string) => path.join(folder, name)
  keygen(file('host'), 'ed25519')
  keygen(file('user'), 'ed25519')
  writeFileSync(file('authorized_keys'), readFileSync(file('user.pub')))
  chmodSync(file('authorized_keys'), 0o644)
  if (options.bashrc !== undefined) writeFileSync(path.join(home, '.bashrc'), options.bashrc)
  if (account) execFileSync('chown', ['-R', account, home])
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  const variables = [
    // Not into the home of whoever runs the tests.
    ...(account ? [] : [`HOME=${home}`]),
    ...(options.path ? [`PATH=${options.path}`] : []),
  ]
  const config = [
    `HostKey ${file('host')}`,
    `AuthorizedKeysFile ${file('authorized_keys')}`,
    'StrictModes no',
    'UsePAM no',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'PermitRootLogin prohibit-password',
    'PidFile none',
    'LogLevel VERBOSE',
    // The first value counts: what a test asks for comes before what it does not.
    ...(options.config ?? ['Subsystem sftp internal-sftp']),
    'AllowTcpForwarding yes',
    ...(account && !options.path ? [] : [`SetEnv ${variables.join(' ')}`]),
  ]
  writeFileSync(file('sshd_config'), `${config.join('\n')}\n`)

  const children = new Map<ChildProcess, Socket>()
  const waiting = new Set<Socket>()
  let [log, count, silent] = ['', 0, false]
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    count += 1
    socket.on('error', () => {})
    if (silent) {
      waiting.add(socket)
      return
    }
    const child = spawn(sshdProgram!, ['-i', '-e', '-f', file('sshd_config')], {
      stdio: [socket, socket, 'pipe'],
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-100_000)
    })
    children.set(child, socket)
    child.once('exit', () => {
      children.delete(child)
      socket.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const key = readFileSync(file('host.pub'), 'utf8').split(' ').slice(0, 2).join(' ')
  writeFileSync(file('known_hosts'), `[127.0.0.1]:${port} ${key}\n`)
  const providers: SshProvider[] = []
  const sshd: TestSshd = {
    port,
    folder,
    username,
    home,
    keyFile: file('user'),
    knownHosts: file('known_hosts'),
    hostKeyFile: file('host.pub'),
    log: () => log,
    options: (more = {}) => ({
      host: '127.0.0.1',
      port,
      username,
      privateKeyPath: file('user'),
      knownHosts: file('known_hosts'),
      root: path.join(home, 'sandkasten'),
      acceptNoIsolation: true,
      // Tests of the runner name it; all others are the script's.
      runner: false,
      // One account, whoever runs the tests: nothing of theirs is looked at.
      ...more,
    }),
    provider(more = {}) {
      const provider = new SshProvider(sshd.options(more))
      providers.push(provider)
      return provider
    },
    cut() {
      const all = [...children.keys()]
      for (const child of all) killTree(child.pid!)
      return all.length
    },
    connections: () => count,
    mute(value) {
      silent = value
      if (!value) for (const socket of waiting) socket.destroy()
    },
    async [Symbol.asyncDispose]() {
      for (const provider of providers) await provider.close()
      for (const socket of waiting) socket.destroy()
      server.close()
      sshd.cut()
      if (account) removeAccount(account)
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return sshd
}

export function keygen(file: string, type: string, passphrase = ''): void {
  execFileSync('ssh-keygen', ['-q', '-t', type, '-N', passphrase, '-C', 'test', '-f', file])
}

/** A folder with these programs and no others, as a PATH. */
export function pathWith(folder: string, programs: readonly string[]): string {
  mkdirSync(folder, { recursive: true })
  for (const program of programs) {
    const file = ['/usr/bin', '/bin'].map((place) => path.join(place, program)).find((at) => existsSync(at))
    if (file) symlinkSync(file, path.join(folder, program))
  }
  return folder
}

/** What an ordinary Linux has, as far as the agent needs it. */
export const usualPrograms =
  'sh bash env setsid mkfifo awk dd grep base64 tail wc sed cat rm mv mkdir ln cp chmod dirname date sleep tr id uname stty script echo true'.split(
    ' ',
  )

/** Processes whose command line has a word in it, and whether they still carry a mark of ours. */
export function processesWith(word: string): Array<{ pid: number; marked: boolean }> {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readOr(`/proc/${pid}/cmdline`).includes(word))
    .map((pid) => ({
      pid: Number(pid),
      marked: readOr(`/proc/${pid}/environ`).includes('SANDKASTEN_PROCESS='),
    }))
}

/** What is left of a sandbox on the host: processes with its mark, and its folder. */
export function leftoversOf(root: string): (sandboxId: string) => string[] {
  return (sandboxId) => {
    const found = execFileSync(
      'sh',
      [
        '-c',
        `grep -lsF SANDKASTEN_SANDBOX=${sandboxId} /proc/[0-9]*/environ; ls -d ${root}/sandboxes/*${sandboxId}* ${root}/sandboxes/.*${sandboxId}* 2>/dev/null; true`,
      ],
      {
        encoding: 'utf8',
      },
    )
    return found.split('\n').filter(Boolean)
  }
}

/** sshd, and the process that it made for the account. Not what runs in sessions: those are sandboxes' processes. */
function killTree(pid: number): void {
  const children = readOr(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean)
  for (const child of children) {
    const comm = readOr(`/proc/${child}/comm`)
    if (comm.startsWith('sshd')) killTree(Number(child))
  }
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function makeAccount(home: string, shell: string): string {
  const name = `skssh${Math.random().toString(36).slice(2, 10)}`
  execFileSync('useradd', ['--no-create-home', '--home-dir', home, '--shell', shell, '--system', name])
  // Without a password, but not locked: sshd refuses an account that is.
  execFileSync('usermod', ['--password', '*', name])
  chownSync(home, Number(execFileSync('id', ['-u', name], { encoding: 'utf8' })), 0)
  return name
}

function removeAccount(name: string): void {
  for (const pid of execFileSync('sh', ['-c', `ps -o pid= -u ${name}; true`], { encoding: 'utf8' })
    .split(/\s+/)
    .filter(Boolean)) {
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
  execFileSync('userdel', [name], { stdio: 'ignore' })
}

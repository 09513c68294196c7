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
 * A real OpenSSH server with its own keys and configuration. The helper listens on a free port and starts `sshd -i` for
 * each connection, like inetd. So a test can end a connection by killing a process, and no server outlives the test.
 */
export interface TestSshd extends AsyncDisposable {
  readonly port: number
  readonly folder: string
  readonly username: string
  readonly home: string
  readonly keyFile: string
  readonly knownHosts: string
  readonly hostKeyFile: string
  log(): string
  options(more?: Partial<SshProviderOptions>): SshProviderOptions
  provider(more?: Partial<SshProviderOptions>): SshProvider
  /** Cuts all connections by killing sshd, like a network failure. */
  cut(): number
  connections(): number
  /** Accepts connections without answering. */
  mute(silent: boolean): void
}

export const sshdProgram = ['/usr/sbin/sshd', '/usr/bin/sshd'].find((file) => existsSync(file))

export interface SshdOptions {
  /** Creates an account for the test, which needs root. Default: the account that runs the tests. */
  ordinary?: boolean
  config?: readonly string[]
  bashrc?: string
  /** The account's shell. */
  shell?: string
  /** The PATH of its commands. */
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
    // Do not write to the home of the account that runs the tests.
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
    // sshd uses the first value of a setting, so the test's settings come first.
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
      // Tests of the runner name it; all others use the script.
      runner: false,
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

/** Makes a folder with only these programs, as a PATH. */
export function pathWith(folder: string, programs: readonly string[]): string {
  mkdirSync(folder, { recursive: true })
  for (const program of programs) {
    const file = ['/usr/bin', '/bin'].map((place) => path.join(place, program)).find((at) => existsSync(at))
    if (file) symlinkSync(file, path.join(folder, program))
  }
  return folder
}

/** The programs of an ordinary Linux that the agent needs. */
export const usualPrograms =
  'sh bash env setsid mkfifo awk dd grep base64 tail wc sed cat rm mv mkdir ln cp chmod dirname date sleep tr id uname stty script echo true'.split(
    ' ',
  )

/** Processes with a word in their command line, and whether they carry our mark. */
export function processesWith(word: string): Array<{ pid: number; marked: boolean }> {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readOr(`/proc/${pid}/cmdline`).includes(word))
    .map((pid) => ({
      pid: Number(pid),
      marked: readOr(`/proc/${pid}/environ`).includes('SANDKASTEN_PROCESS='),
    }))
}

/** Leftovers of a sandbox on the host: processes with its mark, and its folder. */
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

/** Kills sshd and its child for the account, not the processes of sandboxes. */
function killTree(pid: number): void {
  const children = readOr(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean)
  for (const child of children) {
    const comm = readOr(`/proc/${child}/comm`)
    if (comm.startsWith('sshd')) killTree(Number(child))
  }
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already ended.
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
  // No password, but not locked: sshd refuses a locked account.
  execFileSync('usermod', ['--password', '*', name])
  chownSync(home, Number(execFileSync('id', ['-u', name], { encoding: 'utf8' })), 0)
  return name
}

function removeAccount(name: string): void {
  // A process that was killed may take a moment to end, and `userdel` refuses until then.
  const killAll = `while pids=$(ps -o pid= -u ${name}); do kill -9 $pids 2>&-; sleep 0.02; done`
  execFileSync('sh', ['-c', killAll], { stdio: 'ignore', timeout: 30_000 })
  execFileSync('userdel', [name], { stdio: 'ignore' })
}

import type { ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { refuseLogin } from '../../core/login.ts'
import { checkCount } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { bashPrologue } from '../../shared/guest/bash-prologue.ts'
import { keyOf, randomId } from '../../shared/ids.ts'
import { encode } from '../../shared/output/bytes.ts'
import type {
  CallOptions,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessInfo,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
  SandboxTerminal,
} from '../../spec/index.ts'
import { type SftpCalls, sftpCalls, sftpStatus, statusOf } from './connection/sftp.ts'
import type { Known, SshDriver } from './driver.ts'
import { agentError } from './errors.ts'
import { SshFiles } from './files.ts'
import type { Agent, AgentStream } from './guest/agent.ts'
import { type Launch, programScript, shellScript, terminalScript } from './guest/launch.ts'
import { Paths } from './paths.ts'
import { folderFrom, type ProcessPlace, SshProcess, statusFrom } from './process.ts'
import { SshPrograms } from './runner/programs.ts'
import { SshShell, seconds } from './shell.ts'

/** A handle's view of one incarnation of a sandbox on the host. */
export class SshSandbox implements SandboxDriver, ProcessPlace {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly files: SshFiles
  readonly agent: Agent
  readonly #driver: SshDriver
  readonly #folder: string
  readonly #env: Readonly<Record<string, string>>
  #incarnation: string
  #runner: SshPrograms | undefined

  constructor(driver: SshDriver, known: Known, root: string) {
    const { sandboxId, incarnation, record } = known
    this.#driver = driver
    this.agent = driver.agent
    this.sandboxId = sandboxId
    if (record.name !== undefined) this.name = record.name
    this.#incarnation = incarnation
    this.#env = record.envVars
    this.#folder = `${root}/sandboxes/${sandboxId}`
    this.workdir = `${this.#folder}/work`
    this.files = new SshFiles({
      workdir: this.workdir,
      partial: `${this.#folder}/partial`,
      withSftp: (work) => driver.pool.withSftp((sftp) => work(sftpCalls(sftp))),
      check: (sftp) => this.#lives(sftp),
      remove: async (path, { signal }) => {
        await this.agent.call('remove', this.#words([]), { input: [path], sandboxId, what: path, signal })
      },
    })
    this.#runner = this.#runnerOf(known)
  }

  get incarnation(): string {
    return this.#incarnation
  }

  async check(): Promise<void> {
    await this.#driver.pool.withSftp((sftp) => this.#lives(sftpCalls(sftp)))
  }

  info(call: CallOptions): Promise<SandboxInfo> {
    return this.#driver.info(this.sandboxId, call)
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    if (this.#runner) return this.#runner.spawn(spec, call)
    const execId = spec.execId ?? randomId()
    const script = programScript(this.#launch(execId, spec.cwd, spec.env), spec.cmd, spec.args)
    const stdin = spec.stdin !== 'empty'
    const { pid, existed, stream } = await this.#start(
      execId,
      script,
      {
        what: spec.cmd,
        cwd: spec.cwd,
        stdin,
        reading: spec.reading,
        ring: spec.outputBufferBytes,
        timeoutMs: spec.timeoutMs,
      },
      call,
    )
    const process = new SshProcess(this.#bound(), { execId, pid }, stream)
    if (spec.stdin !== 'empty' && spec.stdin !== 'pipe' && !existed) void process.feed(spec.stdin)
    return process
  }

  async getProcess(execId: string, { signal }: CallOptions): Promise<ProcessDriver> {
    if (this.#runner) return this.#runner.getProcess(execId)
    if (!/^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(execId)) throw agentError(79, { what: execId })
    const words = this.#words([execId])
    const [pid] = (
      await this.agent.call('status', words, { sandboxId: this.sandboxId, what: execId, signal })
    ).split(' ')
    return new SshProcess(this.#bound(), {
      execId,
      pid: /^\d+$/.test(pid ?? '') ? Number(pid) : undefined,
    })
  }

  async listProcesses({ signal }: CallOptions): Promise<ProcessInfo[]> {
    if (this.#runner) return this.#runner.listProcesses()
    const answer = await this.agent.call('processes', this.#words([]), { sandboxId: this.sandboxId, signal })
    return answer
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [execId = '', ...words] = line.split(' ')
        return { execId, ...statusFrom(words) }
      })
  }

  async openShell(options: OpenShellOptions, call: CallOptions): Promise<SandboxShell> {
    if (this.#runner) return this.#runner.openShell(options, call)
    refuseLogin(options, 'ssh')
    const name = options.name ?? `shell-${randomId(8)}`
    const key = await keyOf(name)
    const launch = this.#launch(`s-${key}`, options.cwd, options.env ?? {})
    const input = [shellScript(launch), bashPrologue, `${launch.cwd}\n`]
    const cwd = await this.#named(options.cwd, 'bash', () =>
      this.agent.call('shellopen', this.#words([key]), {
        input,
        sandboxId: this.sandboxId,
        signal: call.signal,
      }),
    )
    return new SshShell(this.#bound(), { name, key, cwd: folderFrom(cwd.trim()) })
  }

  async openTerminal(
    options: OpenTerminalOptions & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    if (this.#runner) return this.#runner.openTerminal(options, call)
    const terminalId = options.terminalId ?? `terminal-${randomId(8)}`
    const env = { TERM: 'xterm-256color', ...options.env }
    const { cmd, args = [], cols, rows } = options
    const script = terminalScript(this.#launch(terminalId, options.cwd, env), {
      cols,
      rows,
      args,
      cmd,
    })
    const { pid } = await this.#start(
      terminalId,
      script,
      { what: cmd ?? 'sh', cwd: options.cwd, stdin: true, reading: false, ring: 8 * 1024 * 1024 },
      call,
    )
    return this.#terminal(new SshProcess(this.#bound(), { execId: terminalId, pid }))
  }

  async getEndpoint(port: number): Promise<SandboxEndpoint> {
    await this.check()
    await this.#driver.pool.checkForward(port)
    const local = await this.#driver.forwards(this.sandboxId, () => this.check()).localPort(port)
    return { url: `http://127.0.0.1:${local}`, headers: {} }
  }

  async stop(call: CallOptions): Promise<void> {
    await this.#driver.stop(this.sandboxId, this.#incarnation, call)
  }

  async start(call: CallOptions): Promise<void> {
    const known = await this.#driver.start(this.sandboxId, call)
    this.#incarnation = known.incarnation
    this.#runner = this.#runnerOf(known)
  }

  async extendTimeout(ms: number, { signal }: CallOptions): Promise<void> {
    await this.agent.call('extend', this.#words([Math.ceil(ms)]), { sandboxId: this.sandboxId, signal })
  }

  async ready({ signal }: CallOptions): Promise<void> {
    await this.agent.call('ready', [this.sandboxId], { sandboxId: this.sandboxId, signal })
  }

  destroy(call: CallOptions): Promise<boolean> {
    return this.#driver.destroy(this.sandboxId, call)
  }

  /** Checks with one SFTP request. The reason is requested only after a failure. */
  async #lives(sftp: SftpCalls): Promise<void> {
    const alive = await sftp.stat(`${this.#folder}/live-${this.#incarnation}`).then(
      () => true,
      (error) => {
        if (statusOf(error) !== sftpStatus.noSuchFile) throw error
        return false
      },
    )
    if (alive) return
    const { status, incarnation } = await this.#driver.known(this.sandboxId)
    if (status === 'stopped') throw agentError(72, { sandboxId: this.sandboxId, what: this.sandboxId })
    if (incarnation !== this.#incarnation)
      throw agentError(73, { sandboxId: this.sandboxId, what: this.sandboxId })
  }

  async #start(
    execId: string,
    script: string,
    how: {
      what: string
      cwd: string | undefined
      stdin: boolean
      reading: boolean
      ring: number
      timeoutMs?: number | undefined
    },
    { signal }: CallOptions,
  ): Promise<{ pid: number; existed: boolean; stream?: AgentStream }> {
    const timeout = how.timeoutMs === undefined ? '-' : seconds(how.timeoutMs)
    const words = this.#words([execId, how.ring, timeout, how.stdin ? 1 : 0, how.reading ? 1 : 0])
    const call = { input: [script], sandboxId: this.sandboxId, what: how.what, signal }
    return this.#named(how.cwd, how.what, async () => {
      const stream = await this.agent.open('spawn', words, call)
      const [word, pid, existed] = ((await stream.line()) ?? '').split(' ')
      if (word !== 'started') throw await stream.problem()
      if (!how.reading) stream.close()
      return {
        pid: Number(pid),
        existed: existed === '1',
        stream: how.reading ? stream : undefined,
      }
    })
  }

  /** Adds the program's or the folder's name to the host's error. */
  async #named<T>(cwd: string | undefined, cmd: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const options = { provider: 'ssh', cause: error, sandboxId: this.sandboxId, details: { cmd, cwd } }
      if (SandboxError.is(error, 'cwd_not_found'))
        throw new SandboxError('cwd_not_found', `The working directory ${cwd} does not exist.`, options)
      if (SandboxError.is(error, 'path_outside'))
        throw new SandboxError(
          'path_outside',
          `The working directory ${cwd} is outside the sandbox’s folder.`,
          options,
        )
      if (SandboxError.is(error, 'command_not_found'))
        throw new SandboxError(
          'command_not_found',
          `The program “${cmd}” does not exist on the host.`,
          options,
        )
      if (SandboxError.is(error, 'permission_denied'))
        throw new SandboxError('permission_denied', `The program “${cmd}” cannot be executed.`, {
          ...options,
          hint: 'Make it executable with files.chmod(path, 0o755).',
        })
      if (SandboxError.is(error, 'unsupported') && error.details.status === 85)
        throw new SandboxError('unsupported', 'The host has no script(1), which terminals need.', {
          ...options,
          hint: 'Install util-linux (on Debian `bsdutils`, on Alpine `util-linux-misc`).',
        })
      throw error
    }
  }

  #terminal(process: SshProcess): SandboxTerminal {
    const words = this.#words([process.execId])
    return {
      terminalId: process.execId,
      write: (data) => process.write(encode(data)),
      resize: async (size, { signal } = {}) => {
        const [cols, rows] = [checkCount(size?.cols, 'cols', 1000), checkCount(size?.rows, 'rows', 1000)]
        await this.agent.call('resize', [...words, cols, rows], { sandboxId: this.sandboxId, signal })
      },
      output: ({ after = 0, signal } = {}) => process.events(after, signal),
      kill: (signal = 'SIGTERM', call = {}) => process.kill(signal, call),
      status: (call = {}) => process.status(call),
    }
  }

  #runnerOf({ incarnation, workedBy }: Known): SshPrograms | undefined {
    if (workedBy !== 'runner') return undefined
    return new SshPrograms(this.#driver.links, this.sandboxId, incarnation, {
      check: () => this.check(),
      launch: (id, cwd, env) => this.#launch(id, cwd, env),
      confine: async (cwd) => {
        await this.#driver.pool.withSftp((sftp) =>
          new Paths(sftpCalls(sftp), this.workdir).resolve(cwd, true),
        )
      },
    })
  }

  #launch(id: string, cwd: string | undefined, env: Readonly<Record<string, string>>): Launch {
    return {
      cwd: this.#path(cwd),
      workdir: this.workdir,
      env: { ...this.#env, ...env },
      mark: `${this.sandboxId}/${this.#incarnation}/${id}/`,
    }
  }

  #path(cwd: string | undefined): string {
    if (cwd === undefined) return this.workdir
    if (!cwd.startsWith('/')) return `${this.workdir}/${cwd}`
    if (cwd === this.workdir || cwd.startsWith(`${this.workdir}/`)) return cwd
    throw agentError(78, { sandboxId: this.sandboxId, what: cwd })
  }

  /** Processes belong to the incarnation in which they started, even if this handle moves on. */
  #bound(): ProcessPlace {
    const { agent, sandboxId, incarnation } = this
    return { agent, sandboxId, incarnation, check: () => this.check() }
  }

  #words(more: ReadonlyArray<string | number>): Array<string | number> {
    return [this.sandboxId, this.#incarnation, ...more]
  }
}

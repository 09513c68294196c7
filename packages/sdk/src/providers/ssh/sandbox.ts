import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import { openGuestTerminal } from '../../core/guest-terminal.ts'
import { SandboxError } from '../../errors.ts'
import type { Launch } from '../../shared/guest/launch.ts'
import type { GuestLink } from '../../shared/guest/link.ts'
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
import type { Agent } from './guest/agent.ts'
import { Paths } from './paths.ts'
import { SshPrograms } from './runner/programs.ts'

/** A handle's view of one incarnation of a sandbox on the host. */
export class SshSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly ports: readonly number[]
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
    this.ports = record.ports ?? []
    this.#folder = `${root}/sandboxes/${sandboxId}`
    this.workdir = `${this.#folder}/work`
    this.writablePaths = [this.workdir]
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
    return startGuest(this.#link(), spec, this.#launch(spec.cwd, spec.env), call)
  }

  async getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    return this.#runner ? this.#runner.getProcess(execId) : findGuest(this.#link(), execId, call)
  }

  async listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    return this.#runner ? this.#runner.listProcesses() : listGuests(this.#link(), call)
  }

  async openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    if (this.#runner) return this.#runner.openShell(options, call)
    return openGuestShell(this, { provider: 'ssh', root: `${this.#folder}/run/shells` }, options, call)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    if (this.#runner) return this.#runner.openTerminal(options, call)
    return openGuestTerminal(this.#link(), this.#launch(options.cwd, options.env ?? {}), options, call)
  }

  async getEndpoint(port: number): Promise<SandboxEndpoint> {
    await this.check()
    await this.#driver.pool.checkForward(port)
    const local = await this.#driver.forwards(this.sandboxId, () => this.check()).localPort(port)
    return { url: `http://127.0.0.1:${local}`, headers: {}, forwarded: true }
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

  #runnerOf({ sandboxId, incarnation, workedBy }: Known): SshPrograms | undefined {
    if (workedBy !== 'runner') return undefined
    return new SshPrograms(this.#driver.links, this.sandboxId, incarnation, {
      check: () => this.check(),
      launch: (id, cwd, env) => ({ ...this.#launch(cwd, env), mark: `${sandboxId}/${incarnation}/${id}/` }),
      confine: async (cwd) => {
        await this.#driver.pool.withSftp((sftp) =>
          new Paths(sftpCalls(sftp), this.workdir).resolve(cwd, true),
        )
      },
    })
  }

  #launch(cwd: string | undefined, env: Readonly<Record<string, string>>): Launch {
    return { cwd: this.#path(cwd), confinedTo: this.workdir, env: { ...this.#env, ...env } }
  }

  #path(cwd: string | undefined): string {
    if (cwd === undefined) return this.workdir
    if (!cwd.startsWith('/')) return `${this.workdir}/${cwd}`
    if (cwd === this.workdir || cwd.startsWith(`${this.workdir}/`)) return cwd
    throw agentError(78, { sandboxId: this.sandboxId, what: cwd })
  }

  /** Processes belong to the incarnation in which they started, even if this handle moves on. */
  #link(): GuestLink {
    const { agent, sandboxId } = this
    return {
      provider: 'ssh',
      sandboxId,
      place: 'on the host',
      id: sandboxId,
      start: this.#incarnation,
      ask: (verb, words, call) => agent.call(verb, words, { ...call, sandboxId }),
      open: (verb, words, call) => agent.open(verb, words, { ...call, sandboxId, signal: undefined }),
      // A response without an end, although the connection is there: the sandbox may have been stopped.
      goesOn: async (error) => {
        if (SandboxError.is(error, 'provider_error')) await this.check()
        return false
      },
    }
  }

  #words(more: ReadonlyArray<string | number>): Array<string | number> {
    return [this.sandboxId, this.#incarnation, ...more]
  }
}

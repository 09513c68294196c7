import type { RunnerClient, TaskOutput } from '@sandkasten/runner-client'
import { type ProcessHost, RunnerPrograms } from '@sandkasten/runner-client'
import type {
  CallOptions,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessInfo,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
  SandboxTerminal,
} from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import type { SandboxRecord } from '@sandkasten/sdk/internal'
import type {
  Access,
  Checked,
  NormalNetwork,
  ProcessDriver,
  ProcessSpec,
  SandboxDriver,
} from '@sandkasten/sdk/provider'
import { randomId } from '@sandkasten/sdk/provider'
import type { Binding } from './disks/disks.ts'
import type { EngineDriver } from './driver.ts'
import { EngineFiles } from './files.ts'

/** One incarnation of an isolated sandbox, as one handle sees it. */
export class EngineSandbox implements SandboxDriver, ProcessHost {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly ports: readonly number[]
  network: NormalNetwork
  readonly files: EngineFiles
  readonly bound = true
  readonly #driver: EngineDriver
  readonly #programs = new RunnerPrograms(this)
  #incarnation: string

  constructor(
    driver: EngineDriver,
    record: SandboxRecord,
    workdir: string,
    access: Access,
    network: NormalNetwork,
  ) {
    this.#driver = driver
    this.network = network
    this.sandboxId = record.sandboxId
    if (record.name !== undefined) this.name = record.name
    this.ports = record.ports ?? []
    this.#incarnation = record.incarnation
    this.workdir = workdir
    this.writablePaths = access.writablePaths
    this.files = new EngineFiles(
      () => this.client(),
      workdir,
      access,
      async (file) => {
        await this.#check()
        return driver.shareFile(this.sandboxId, file)
      },
    )
  }

  /** A connection to the runner, if this handle may act on the sandbox now. */
  async client(): Promise<RunnerClient> {
    return this.#driver.client(await this.#check())
  }

  get writers(): Map<string, TaskOutput> {
    return this.#driver.writers(this.sandboxId)
  }

  async oomKills(): Promise<number | undefined> {
    return this.#driver.oomKills(await this.#check())
  }

  /** A lost connection may be the first sign that the sandbox has ended. If so, reports the end instead. */
  async explain(error: unknown): Promise<unknown> {
    if (!SandboxError.is(error, 'connection_lost')) return error
    if (!(await this.#driver.hasEnded(this.sandboxId, this.#incarnation))) return error
    return new SandboxError('not_running', `The sandbox ${this.sandboxId} has ended.`, {
      sandboxId: this.sandboxId,
      cause: error,
    })
  }

  async info(): Promise<SandboxInfo> {
    return this.#driver.info(this.sandboxId)
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const record = await this.#check()
    const place = {
      execId: spec.execId ?? randomId(),
      cwd: this.#path(spec.cwd),
      env: { ...record.envVars, ...spec.env },
      oomBefore: await this.#driver.oomKills(record),
    }
    return this.#programs.spawn(await this.#driver.client(record), spec, place, call)
  }

  getProcess(execId: string): Promise<ProcessDriver> {
    return this.#programs.getProcess(execId)
  }

  listProcesses(): Promise<ProcessInfo[]> {
    return this.#programs.listProcesses()
  }

  async openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    const record = await this.#check()
    const login = options.login ?? this.#driver.defaults.login
    const place = { cwd: this.#path(options.cwd), env: { ...record.envVars, ...options.env }, login }
    return this.#programs.openShell(options.name ?? `shell-${randomId()}`, place, call)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const record = await this.#check()
    const { cmd, args = [], cols, rows, terminalId = `terminal-${randomId()}` } = options
    const argv = cmd === undefined ? ['sh', '-c', loginShell] : [cmd, ...args]
    const env = { ...record.envVars, ...options.env }
    return this.#programs.openTerminal(
      terminalId,
      argv,
      { cwd: this.#path(options.cwd), env, cols, rows },
      call,
    )
  }

  async getEndpoint(port: number): Promise<SandboxEndpoint> {
    const record = await this.#check()
    const local = await this.#driver.forwards(record).localPort(port)
    return { url: `http://127.0.0.1:${local}`, headers: {}, forwarded: true }
  }

  async stop(): Promise<void> {
    await this.#driver.stop(this.sandboxId, this.#incarnation)
  }

  async start(): Promise<void> {
    this.#incarnation = (await this.#driver.start(this.sandboxId)).incarnation
  }

  async pause(): Promise<void> {
    await this.#driver.pause(await this.#check())
  }

  async resume(): Promise<void> {
    await this.#driver.resume(await this.#check({ paused: true }))
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    return this.#driver.snapshot(this.#binding, name, call)
  }

  async fork(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    return this.#driver.fork(this.#binding, count, call)
  }

  get #binding(): Binding {
    return { sandboxId: this.sandboxId, incarnation: this.#incarnation }
  }

  async extendTimeout(ms: number): Promise<void> {
    await this.#check({ paused: true })
    await this.#driver.extend(this.sandboxId, ms)
  }

  /** Also of a stopped sandbox: it applies to the next start. */
  async setNetwork(network: NormalNetwork): Promise<void> {
    const record = await this.#driver.current(this.sandboxId)
    if (record.status !== 'stopped') await this.#check({ paused: true })
    this.network = await this.#driver.setNetwork(record, network)
  }

  async ready(): Promise<void> {
    await this.#driver.ready(this.sandboxId)
  }

  async destroy(): Promise<boolean> {
    return this.#driver.destroy(this.sandboxId)
  }

  /** A paused sandbox does not answer, so this fails at once instead of after a timeout. */
  async #check(options: { paused?: boolean } = {}): Promise<SandboxRecord> {
    const record = await this.#driver.check(this.sandboxId, this.#incarnation)
    if (options.paused || record.status !== 'paused') return record
    throw new SandboxError('not_running', `The sandbox ${this.sandboxId} is paused.`, {
      sandboxId: this.sandboxId,
      hint: {
        sdk: 'Continue it with resume().',
        http: 'Continue it with POST /v1/sessions/{id}/resume.',
        cli: 'Continue it with: sandkasten sessions resume.',
      },
    })
  }

  #path(cwd: string | undefined): string {
    if (cwd === undefined) return this.workdir
    return cwd.startsWith('/') ? cwd : `${this.workdir}/${cwd}`
  }
}

/** Falls back to sh in images without bash. */
const loginShell = 'command -v bash >/dev/null && exec bash; exec sh'

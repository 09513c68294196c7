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
import type { SandboxRecord } from '@sandkasten/sdk/folder'
import type { ProcessDriver, ProcessSpec, SandboxDriver } from '@sandkasten/sdk/provider'
import { randomId } from '@sandkasten/sdk/provider'
import type { RunnerClient, TaskOutput } from '../runner/index.ts'
import type { EngineDriver } from './driver.ts'
import { EngineFiles } from './files.ts'
import type { Binding } from './layered-driver.ts'
import { EngineProcess, startProcess, withStdin } from './process.ts'
import { EngineShell } from './shell.ts'
import { EngineTerminal } from './terminal.ts'

/** One incarnation of an isolated sandbox, as one handle sees it. */
export class EngineSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly files: EngineFiles
  readonly #driver: EngineDriver
  #incarnation: string

  constructor(driver: EngineDriver, record: SandboxRecord, workdir: string) {
    this.#driver = driver
    this.sandboxId = record.sandboxId
    if (record.name !== undefined) this.name = record.name
    this.#incarnation = record.incarnation
    this.workdir = workdir
    this.files = new EngineFiles(() => this.client(), workdir)
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

  async info(): Promise<SandboxInfo> {
    return this.#driver.info(this.sandboxId)
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const record = await this.#check()
    const place = {
      processId: spec.processId ?? randomId(),
      cwd: this.#path(spec.cwd),
      env: { ...record.envVars, ...spec.env },
      oomBefore: await this.#driver.oomKills(record),
    }
    return startProcess(this, await this.#driver.client(record), spec, place, call)
  }

  async getProcess(processId: string): Promise<ProcessDriver> {
    const task = (await (await this.client()).list()).find(
      ({ id, kind }) => id === processId && kind === 'process',
    )
    if (task)
      return new EngineProcess(this, { processId, ...(task.pid === undefined ? {} : { pid: task.pid }) })
    throw new SandboxError('not_found', `There is no process ${processId} in this sandbox.`, {
      sandboxId: this.sandboxId,
      hint: 'See listProcesses().',
    })
  }

  async listProcesses(): Promise<ProcessInfo[]> {
    const tasks = await (await this.client()).list()
    const processes = tasks.filter(({ kind }) => kind === 'process')
    return Promise.all(
      processes.map(async ({ id: processId }) => ({
        processId,
        ...(await new EngineProcess(this, { processId }).status({})),
      })),
    )
  }

  async openShell(options: OpenShellOptions, call: CallOptions): Promise<SandboxShell> {
    const record = await this.#check()
    const name = options.name ?? `shell-${randomId()}`
    const cwd = this.#path(options.cwd)
    const env = { ...record.envVars, ...options.env }
    const reopen = (client: RunnerClient) => client.openShell({ id: name, cwd, env, signal: call.signal })
    const client = await this.client()
    await reopen(client)
    const open = (await client.listShells()).find(({ id }) => id === name)
    const at = open?.cwd ? Buffer.from(open.cwd).toString('utf8') : cwd
    return new EngineShell({ name, cwd: at, client: () => this.client(), reopen })
  }

  async openTerminal(
    options: OpenTerminalOptions & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const record = await this.#check()
    const client = await this.client()
    const { cmd, args = [], cols, rows } = options
    const argv = cmd === undefined ? ['sh', '-c', loginShell] : [cmd, ...args]
    const processId = options.terminalId ?? `terminal-${randomId()}`
    const stream = await client.start({
      id: processId,
      argv,
      cwd: this.#path(options.cwd),
      env: { TERM: 'xterm-256color', ...record.envVars, ...options.env },
      tty: true,
      stdin: true,
      cols,
      rows,
      lossy: true,
      signal: call.signal,
    })
    const process = withStdin(this, stream)
    return new EngineTerminal(process, () => this.client())
  }

  async getEndpoint(port: number): Promise<SandboxEndpoint> {
    const record = await this.#check()
    const local = await this.#driver.forwards(record).localPort(port)
    return { url: `http://127.0.0.1:${local}`, headers: {} }
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

  async extendLifetime(ms: number): Promise<void> {
    await this.#check({ paused: true })
    await this.#driver.extend(this.sandboxId, ms)
  }

  async ready(): Promise<void> {
    await this.#driver.ready(this.sandboxId)
  }

  async destroy(): Promise<boolean> {
    return this.#driver.destroy(this.sandboxId)
  }

  /** A paused sandbox answers nothing, so that is said at once instead of after a time-out. */
  async #check(options: { paused?: boolean } = {}): Promise<SandboxRecord> {
    const record = await this.#driver.check(this.sandboxId, this.#incarnation)
    if (options.paused || record.status !== 'paused') return record
    throw new SandboxError('not_running', `The sandbox ${this.sandboxId} is paused.`, {
      sandboxId: this.sandboxId,
      hint: 'Let it go on with resume().',
    })
  }

  #path(cwd: string | undefined): string {
    if (cwd === undefined) return this.workdir
    return cwd.startsWith('/') ? cwd : `${this.workdir}/${cwd}`
  }
}

/** bash, and sh where the image has none. */
const loginShell = 'command -v bash >/dev/null && exec bash; exec sh'

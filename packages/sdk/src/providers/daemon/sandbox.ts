import type { SandboxClient, Session, SessionInfo } from '../../client/index.ts'
import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import { portsFrom } from '../../shared/port-list.ts'
import type {
  CallOptions,
  Network,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessInfo,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
  SandboxTerminal,
} from '../../spec/index.ts'
import { DaemonFiles } from './files.ts'
import { DaemonProcess, exitOf, startProcess } from './process.ts'
import { DaemonShell } from './shell.ts'
import { DaemonTerminal } from './terminal.ts'
import { infoOf, notFound, portsLabel, setupLabel, translating } from './translation.ts'

/** A handle's view of one start of a session. */
export class DaemonSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths?: readonly string[]
  readonly ports: readonly number[]
  readonly files: DaemonFiles
  readonly #client: SandboxClient
  #network: Network | undefined
  readonly #session: Session

  constructor(client: SandboxClient, info: SessionInfo) {
    this.#client = client
    const session = client.session(info.id, { bound: info.incarnation })
    this.#session = session
    this.sandboxId = info.id
    if (info.name !== undefined) this.name = info.name
    this.workdir = info.workdir ?? '/'
    if (info.writablePaths !== undefined) this.writablePaths = info.writablePaths
    this.#network = info.network
    this.ports = portsFrom(info.labels[portsLabel])
    this.files = new DaemonFiles(session)
  }

  get network(): Network | undefined {
    return this.#network
  }

  async info(call: CallOptions): Promise<SandboxInfo> {
    return infoOf(await this.#session.info(call))
  }

  spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    return this.#translated(startProcess(this.#session, spec, call))
  }

  async getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    await this.#check(call)
    const command = this.#session.command(execId)
    const info = await command.info(call)
    if (info.kind === 'run' && info.incarnation === this.#session.bound)
      return new DaemonProcess(this.#session, command)
    throw new SandboxError('not_found', `The process ${execId} does not exist in this sandbox.`, {
      sandboxId: this.sandboxId,
      hint: 'See listProcesses().',
    })
  }

  async listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    await this.#check(call)
    const commands = await this.#session.listCommands({ ...call, limit: 1000 })
    return commands
      .filter(({ kind, incarnation }) => kind === 'run' && incarnation === this.#session.bound)
      .map((info) => {
        const [cmd, ...args] = info.command as string[]
        return {
          execId: info.execId,
          running: info.status === 'running',
          ...exitOf(info),
          ...(cmd === undefined ? {} : { cmd, args }),
          startedAt: info.createdAt,
        }
      })
  }

  async openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    const { name = `shell-${randomId()}`, cwd, env, login } = options
    const opening = this.#session.openShell(name, {
      cwd,
      env,
      login,
      ...call,
    })
    const shell = await this.#translated(opening)
    return new DaemonShell(this.#session, shell)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const { signal: _, ...rest } = options
    return new DaemonTerminal(await this.#translated(this.#session.openTerminal({ ...rest, ...call })))
  }

  /** Uses the path form, because not every machine resolves `*.localhost`. */
  async getEndpoint(port: number, call: CallOptions): Promise<SandboxEndpoint> {
    await this.#check(call)
    const { url, pathUrl } = await this.#translated(this.#session.openPort(port, call))
    const address = pathUrl ?? url
    if (address) return { url: address, headers: this.#session.visitorHeaders }
    throw new SandboxError('unsupported', 'This daemon has no port previews.', {
      sandboxId: this.sandboxId,
      hint: 'Set preview_listen in its configuration.',
    })
  }

  async stop(call: CallOptions): Promise<void> {
    const info = await this.#session.info(call)
    this.#refuseOther(info)
    if (info.status === 'stopped' || info.status === 'crashed') return
    await this.#translated(this.#session.stop(call))
  }

  async start(call: CallOptions): Promise<void> {
    await this.#translated(this.#session.startAgain(call))
  }

  async pause(call: CallOptions): Promise<void> {
    await this.#check(call)
    await this.#translated(this.#session.pause(call))
  }

  async resume(call: CallOptions): Promise<void> {
    this.#refuseOther(await this.#session.info(call))
    await this.#translated(this.#session.resume(call))
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    await this.#check(call)
    const { id } = await this.#translated(this.#session.snapshot({ name, ...call }))
    return { snapshotId: id }
  }

  async fork(count: number, call: CallOptions): Promise<Array<DaemonSandbox | Error>> {
    await this.#check(call)
    const copies = await this.#translated(this.#session.fork({ count, ...call }))
    return copies.map((copy) => (copy instanceof Error ? copy : new DaemonSandbox(this.#client, copy.info)))
  }

  async extendTimeout(ms: number, call: CallOptions): Promise<void> {
    this.#refuseOther(await this.#session.info(call))
    await this.#translated(this.#session.extend(ms / 1000, call))
  }

  async setNetwork(network: Network, call: CallOptions): Promise<void> {
    await this.#check(call)
    const info = await this.#translated(this.#session.setNetwork(network, call))
    this.#network = info.network ?? network
  }

  async ready(call: CallOptions): Promise<void> {
    await this.#translated(this.#session.setLabels({ [setupLabel]: null }, call))
  }

  async destroy(call: CallOptions): Promise<boolean> {
    try {
      return await this.#session.end(call)
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  #translated<T>(work: Promise<T>): Promise<T> {
    return translating(this.sandboxId, work)
  }

  /** For calls that the daemon also accepts for stopped sessions. */
  async #check(call: CallOptions): Promise<void> {
    const info = await this.#session.info(call)
    this.#refuseOther(info)
    if (info.status === 'running') return
    throw new SandboxError('not_running', `The sandbox ${this.sandboxId} is ${info.status}.`, {
      sandboxId: this.sandboxId,
    })
  }

  #refuseOther(info: SessionInfo): void {
    if (info.status === 'destroyed' || info.status === 'expired' || info.status === 'failed')
      throw notFound(this.sandboxId)
    if (info.incarnation === this.#session.bound) return
    throw new SandboxError('interrupted', `The sandbox ${this.sandboxId} was restarted.`, {
      sandboxId: this.sandboxId,
    })
  }
}

import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { refuseLogin } from '../../core/login.ts'
import type { NormalNetwork } from '../../core/network/normal.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import type {
  CallOptions,
  OpenShellOptions,
  ProcessInfo,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
} from '../../spec/index.ts'
import type { FaultHit, FaultPoint } from './faults.ts'
import { MemoryFiles } from './files.ts'
import { resolveCommand } from './machine/commands.ts'
import { MemoryProcess, ProcessBinding } from './process.ts'
import { MemorySandbox, workdir } from './sandbox.ts'
import type { SharedState } from './shared-state.ts'
import { MemoryShell } from './shell.ts'

/** A handle's binding to one incarnation of a sandbox. Checks every operation, and applies faults. */
export class SandboxBinding implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir = workdir
  readonly writablePaths = ['/']
  readonly ports: readonly number[]
  readonly files: MemoryFiles
  readonly #sandbox: MemorySandbox
  readonly #sharedState: SharedState
  #incarnation: number

  constructor(sandbox: MemorySandbox) {
    this.#sandbox = sandbox
    this.#sharedState = sandbox.sharedState
    this.#incarnation = sandbox.incarnation
    this.sandboxId = sandbox.id
    this.ports = sandbox.recipe.ports ?? []
    if (sandbox.recipe.name !== undefined) this.name = sandbox.recipe.name
    this.files = new MemoryFiles({
      vfs: sandbox.vfs,
      enter: (operation, call) => this.#enter(operation, call),
    })
  }

  get network(): NormalNetwork | undefined {
    return this.#sandbox.network
  }

  async info(call: CallOptions): Promise<SandboxInfo> {
    await this.#fault('info', call)
    if (this.#sandbox.status === 'destroyed') throw this.#gone()
    return this.#sandbox.info()
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    await this.#enter('spawn', call)
    const sandbox = this.#sandbox
    const known = spec.execId === undefined ? undefined : sandbox.processes.get(spec.execId)
    if (known) return this.#bind(known)
    const cwd = this.#cwd(spec.cwd)
    const { handler, args } = await resolveCommand(this.#sharedState.commands, sandbox.files, {
      ...spec,
      cwd,
    })
    throwIfAborted(call.signal, `The command ${spec.cmd}`)
    this.#check()
    const earlier = spec.execId === undefined ? undefined : sandbox.processes.get(spec.execId)
    if (earlier) return this.#bind(earlier)
    const process = new MemoryProcess(
      {
        sandboxId: sandbox.id,
        sharedState: this.#sharedState,
        files: sandbox.files,
        paused: () => sandbox.status === 'paused',
        change: () => sandbox.change(),
        changed: () => sandbox.changed(),
      },
      spec,
      {
        execId: spec.execId ?? this.#sharedState.id('process'),
        pid: this.#sharedState.count('pid') + 1,
        handler,
        args,
        cwd,
        env: { ...sandbox.recipe.envVars, ...spec.env },
      },
    )
    sandbox.processes.set(process.execId, process)
    return this.#bind(process)
  }

  async getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    await this.#enter('getProcess', call)
    const process = this.#sandbox.processes.get(execId)
    if (process) return this.#bind(process)
    throw new SandboxError(
      'not_found',
      `The process ${execId} does not exist in the sandbox ${this.sandboxId}.`,
      {
        provider: 'memory',
        sandboxId: this.sandboxId,
        hint: 'List processes with listProcesses().',
      },
    )
  }

  async listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    await this.#enter('listProcesses', call)
    return [...this.#sandbox.processes.values()].map((process) => process.info())
  }

  async openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    await this.#enter('openShell', call)
    refuseLogin(options, 'memory')
    const sandbox = this.#sandbox
    const name = options.name ?? this.#sharedState.id('shell')
    const open = sandbox.shells.get(name)
    if (open) return open
    if (!this.#sharedState.shell)
      throw new SandboxError('unsupported', 'The memory provider has no scripted shell.', {
        provider: 'memory',
        hint: 'Pass { shell: handler } to new MemoryProvider().',
      })
    const shell = new MemoryShell(sandbox, this.#sharedState.shell, {
      name,
      cwd: this.#cwd(options.cwd),
      env: { ...sandbox.recipe.envVars, ...options.env },
    })
    sandbox.shells.set(name, shell)
    return shell
  }

  async getEndpoint(port: number, call: CallOptions): Promise<SandboxEndpoint> {
    await this.#enter('getEndpoint', call)
    return this.#sharedState.endpoint(this.sandboxId, port)
  }

  async stop(call: CallOptions): Promise<void> {
    await this.#fault('stop', call)
    if (this.#sandbox.status === 'stopped') return
    this.#check({ paused: true })
    this.#sandbox.stop()
  }

  async start(call: CallOptions): Promise<void> {
    await this.#fault('start', call)
    if (this.#sandbox.status === 'destroyed') throw this.#gone()
    if (this.#sandbox.status === 'stopped') this.#sandbox.start()
    this.#incarnation = this.#sandbox.incarnation
  }

  async pause(call: CallOptions): Promise<void> {
    await this.#fault('pause', call)
    this.#check({ paused: true })
    if (this.#sandbox.status === 'running') this.#sandbox.pause()
  }

  async resume(call: CallOptions): Promise<void> {
    await this.#fault('resume', call)
    this.#check({ paused: true })
    if (this.#sandbox.status === 'paused') this.#sandbox.resume()
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    await this.#fault('snapshot', call)
    this.#check({ paused: true, stopped: true })
    const snapshotId = this.#sharedState.id('snapshot')
    const info = {
      snapshotId,
      name,
      createdAt: new Date(this.#sharedState.clock.now()),
      sandboxId: this.sandboxId,
    }
    this.#sharedState.snapshots.set(snapshotId, { info, root: this.#sandbox.vfs.copy() })
    this.#restart()
    return { snapshotId }
  }

  async fork(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    const { name: _, ...rest } = this.#sandbox.recipe
    const recipe = { ...rest, network: this.#sandbox.network }
    const root = this.#sandbox.vfs.copy()
    const forks: Array<SandboxDriver | Error> = []
    for (let index = 0; index < count; index += 1) {
      try {
        await this.#enter('fork', call)
        const id = this.#sharedState.id('sandbox')
        const fork = new MemorySandbox(this.#sharedState, id, recipe, {
          root: index === 0 ? root : this.#sandbox.vfs.copy(),
          creating: false,
        })
        this.#sharedState.sandboxes.set(id, fork)
        forks.push(new SandboxBinding(fork))
      } catch (error) {
        forks.push(error as Error)
      }
    }
    this.#restart()
    return forks
  }

  async extendTimeout(ms: number, call: CallOptions): Promise<void> {
    await this.#enter('extendTimeout', call)
    this.#sandbox.extend(ms)
  }

  async setNetwork(network: NormalNetwork, call: CallOptions): Promise<void> {
    await this.#enter('setNetwork', call)
    this.#sandbox.network = network
  }

  async ready(): Promise<void> {
    this.#sandbox.open()
  }

  async destroy(call: CallOptions): Promise<boolean> {
    await this.#fault('destroy', call)
    if (this.#sandbox.status === 'destroyed') return false
    this.#sandbox.destroy()
    return true
  }

  /** After a snapshot, if snapshots interrupt: as a vendor does that must stop a sandbox to save it. */
  #restart(): void {
    if (!this.#sharedState.snapshotInterrupts || this.#sandbox.status !== 'running') return
    this.#sandbox.stop()
    this.#sandbox.start()
    this.#incarnation = this.#sandbox.incarnation
  }

  #bind(process: MemoryProcess): ProcessBinding {
    return new ProcessBinding(
      process,
      (operation, call) => this.#fault(operation, call),
      () => this.#sharedState.faults.take('output', this.sandboxId),
    )
  }

  async #enter(operation: FaultPoint, call: CallOptions): Promise<FaultHit> {
    this.#check()
    const hit = await this.#fault(operation, call)
    this.#check()
    return hit
  }

  #fault(operation: FaultPoint, call: CallOptions): Promise<FaultHit> {
    return this.#sharedState.faults.enter(operation, this.sandboxId, call.signal)
  }

  #check(allow: { paused?: boolean; stopped?: boolean } = {}): void {
    const sandbox = this.#sandbox
    if (sandbox.status === 'destroyed') throw this.#gone()
    if (sandbox.status === 'stopped' && !allow.stopped)
      throw sandbox.error('not_running', `The sandbox ${this.sandboxId} is stopped.`)
    if (sandbox.incarnation !== this.#incarnation)
      throw sandbox.error(
        'interrupted',
        `The sandbox ${this.sandboxId} was restarted since this handle was created.`,
      )
    if (sandbox.status === 'paused' && !allow.paused) {
      throw sandbox.error(
        'not_running',
        `The sandbox ${this.sandboxId} is paused.`,
        'Call resume(), or get it again with provider.get(id).',
      )
    }
  }

  #gone(): SandboxError {
    return this.#sandbox.error('not_found', `The sandbox ${this.sandboxId} is destroyed.`)
  }

  #cwd(cwd: string | undefined): string {
    let place: ReturnType<MemorySandbox['vfs']['place']> | undefined
    try {
      place = this.#sandbox.vfs.place(cwd ?? workdir, { follow: true })
    } catch (error) {
      if (!SandboxError.is(error, 'file_not_found', 'not_a_directory')) throw error
    }
    if (place?.node?.type === 'directory') return place.path
    throw new SandboxError(
      'cwd_not_found',
      `The working directory ${cwd} does not exist, or is not a directory.`,
      { provider: 'memory', sandboxId: this.sandboxId, details: { cwd } },
    )
  }
}

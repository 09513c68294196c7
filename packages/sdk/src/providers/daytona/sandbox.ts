import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import { openGuestTerminal } from '../../core/guest-terminal.ts'
import type { NormalNetwork } from '../../core/network/normal.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import { leaving, undoneOnAbort } from '../../shared/calls/undo.ts'
import { type Launch, loginShell } from '../../shared/guest/launch.ts'
import { randomId } from '../../shared/ids.ts'
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
import { translated, translating } from './errors.ts'
import { DaytonaFiles } from './files.ts'
import { gone, Incarnation } from './incarnation.ts'
import { keptRules, networkSettingsOf, replacing } from './network.ts'
import type { TimeLimits } from './options.ts'
import { again } from './retry.ts'
import type { DaytonaClient, DaytonaSandboxObject } from './sdk.ts'
import { createLabel, infoOf, nameLabel, portsOf, setupLabel, snapshotPrefix } from './translation.ts'
import { awaken, removed } from './wait-until-settled.ts'

/** A handle's view of one start of a sandbox. */
export class DaytonaSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly ports: readonly number[]
  readonly #client: DaytonaClient
  readonly #incarnation: Incarnation
  readonly #timeLimits: TimeLimits
  readonly #files: DaytonaFiles
  #network: NormalNetwork | undefined

  private constructor(client: DaytonaClient, sandbox: DaytonaSandboxObject, timeLimits: TimeLimits) {
    this.#client = client
    this.#incarnation = new Incarnation(sandbox, timeLimits)
    this.#timeLimits = timeLimits
    this.#files = new DaytonaFiles(this.#incarnation)
    this.sandboxId = sandbox.id
    this.ports = portsOf(sandbox)
    const name = sandbox.labels?.[nameLabel]
    if (name !== undefined) this.name = name
  }

  /** Binds to the current start, or to none if the sandbox does not run. */
  static async of(
    client: DaytonaClient,
    sandbox: DaytonaSandboxObject,
    timeLimits: TimeLimits,
    call: CallOptions,
    network?: NormalNetwork,
  ): Promise<DaytonaSandbox> {
    const bound = new DaytonaSandbox(client, sandbox, timeLimits)
    bound.#network = network
    if (sandbox.state === 'started') await bound.#incarnation.bind(call)
    return bound
  }

  get workdir(): string {
    return this.#incarnation.workdir
  }

  /** Unknown while the sandbox does not run: only a running one tells its working directory. */
  get writablePaths(): readonly string[] | undefined {
    return this.workdir === '/' ? undefined : [this.workdir, '/tmp']
  }

  get files(): DaytonaFiles {
    return this.#files
  }

  /** Unknown until it is set by this handle. */
  get network(): NormalNetwork | undefined {
    return this.#network
  }

  async info(call: CallOptions): Promise<SandboxInfo> {
    await this.#refresh(call)
    return infoOf(this.#object)
  }

  spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    return startGuest(this.#incarnation.link(), spec, this.#launch(spec.cwd, spec.env), call)
  }

  getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    return findGuest(this.#incarnation.link(), execId, call)
  }

  listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    return listGuests(this.#incarnation.link(), call)
  }

  openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'daytona' }, options, call)
  }

  openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const program = options.cmd === undefined ? { ...options, ...loginShell } : options
    return openGuestTerminal(
      this.#incarnation.link(),
      this.#launch(options.cwd, options.env ?? {}),
      program,
      call,
    )
  }

  #launch(cwd: string | undefined, env: Readonly<Record<string, string>>): Launch {
    const { workdir } = this.#incarnation
    return { cwd: cwd === undefined ? workdir : cwd.startsWith('/') ? cwd : `${workdir}/${cwd}`, env }
  }

  /** The port is private: a request needs the token. */
  async getEndpoint(port: number, call: CallOptions): Promise<SandboxEndpoint> {
    await this.#check(call)
    const { url, token } = await this.#do(`Port ${port}`, this.#object.getPreviewLink(port), call)
    return {
      url,
      headers: { 'x-daytona-preview-token': token, 'x-daytona-skip-preview-warning': 'true' },
    }
  }

  async stop(call: CallOptions): Promise<void> {
    await this.#refresh(call)
    const { state } = infoOf(this.#object).status === 'stopped' ? { state: 'stopped' } : this.#object
    if (state === 'stopped' || state === 'archived' || state === 'archiving') return
    if (state === 'started') await this.#check(call)
    await this.#do('Stopping', this.#object.stop(this.#timeLimits.startMs / 1000), call)
  }

  async start(call: CallOptions): Promise<void> {
    await this.#refresh(call)
    if (this.#object.state === 'started') return this.#bindOnce(call)
    await awaken(this.#object, this.#timeLimits, call)
    await this.#incarnation.bind(call)
  }

  async pause(call: CallOptions): Promise<void> {
    await this.#check(call)
    await this.#do('Pausing', this.#object.pause(this.#timeLimits.startMs / 1000), call)
  }

  async resume(call: CallOptions): Promise<void> {
    await this.#refresh(call)
    if (this.#object.state !== 'started') await awaken(this.#object, this.#timeLimits, call)
    await this.#check(call)
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    await this.#check(call)
    const snapshotId = `${snapshotPrefix}${name ?? randomId()}`
    await this.#do('Saving', this.#object.createSnapshot(snapshotId, this.#timeLimits.startMs / 1000), call)
    return { snapshotId }
  }

  async fork(count: number, call: CallOptions): Promise<Array<DaytonaSandbox | Error>> {
    await this.#check(call)
    const copies: Array<DaytonaSandbox | Error> = []
    // One at a time: each fork reads the same disk.
    for (let made = 0; made < count; made += 1)
      copies.push(await this.#fork(call).catch((error: unknown) => error as Error))
    return copies
  }

  /** Checks that the handle's start still runs; the vendor would also save a stopped sandbox. */
  async refreshActivity(call: CallOptions): Promise<void> {
    await this.#check(call)
    await this.#do('Refreshing the activity', this.#object.refreshActivity(), call)
  }

  async setNetwork(network: NormalNetwork, call: CallOptions): Promise<void> {
    const settings = networkSettingsOf(network)
    await this.#check(call)
    await this.#do('Setting the network', this.#object.updateNetworkSettings(replacing(settings)), call)
    await this.#refresh(call)
    const kept = keptRules(settings, this.#object)
    if (kept !== undefined)
      throw new SandboxError('provider_error', `Daytona kept an earlier rule: \`${kept}\`.`, {
        provider: 'daytona',
        sandboxId: this.sandboxId,
        hint: 'Call setNetwork(none) first, or create the sandbox again.',
      })
    this.#network = network
  }

  async ready(call: CallOptions): Promise<void> {
    await this.#refresh(call)
    const { [setupLabel]: _, ...labels } = this.#object.labels ?? {}
    await this.#do('Labelling', this.#object.setLabels(labels), call)
  }

  async destroy(call: CallOptions): Promise<boolean> {
    try {
      await this.#do('Destroying', this.#object.delete(this.#timeLimits.startMs / 1000), call)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  get #object(): DaytonaSandboxObject {
    return this.#incarnation.sandbox
  }

  /** A fork has no label at first. Until it has one, its name identifies it. */
  async #fork(call: CallOptions): Promise<DaytonaSandbox> {
    const name = `sandkasten-fork-${randomId()}`
    const forking = this.#object.fork({ name }, this.#timeLimits.startMs / 1000)
    const unmake = (made: DaytonaSandboxObject) => removed(made, this.#timeLimits)
    try {
      const copy = await this.#do('Forking', undoneOnAbort(forking, unmake, call.signal, 'Forking'), {})
      const { [nameLabel]: _, [createLabel]: __, [setupLabel]: ___, ...labels } = this.#object.labels ?? {}
      await this.#do('Labelling', copy.setLabels(labels), call)
      return await DaytonaSandbox.of(this.#client, copy, this.#timeLimits, call)
    } catch (error) {
      throw await this.#unforked(name, translated(error, 'Forking', this.sandboxId))
    }
  }

  /** Removes the leftovers of a failed fork, and returns its error. */
  async #unforked(name: string, failure: SandboxError): Promise<SandboxError> {
    let left = name
    try {
      const look = () => translating('Cleaning up', undefined, this.#client.get(name))
      const copy = await again(look, undefined)
      left = copy.id
      await removed(copy, this.#timeLimits)
      return failure
    } catch (cleanUp) {
      return SandboxError.is(cleanUp, 'not_found') ? failure : leaving(failure, left, cleanUp)
    }
  }

  async #refresh(call: CallOptions): Promise<void> {
    await this.#do('Reading the state of the sandbox', this.#object.refreshData(), call)
    if (infoOf(this.#object).status === 'destroyed') throw gone(this.sandboxId)
  }

  /** Checks that the sandbox runs and that this is the handle's start. */
  async #check(call: CallOptions): Promise<void> {
    await this.#incarnation.ask(['hello'], call)
  }

  async #bindOnce(call: CallOptions): Promise<void> {
    if (this.#incarnation.bound) return this.#check(call)
    await this.#incarnation.bind(call)
  }

  async #do<T>(what: string, work: Promise<T>, { signal }: CallOptions): Promise<T> {
    try {
      return await abortable(translating(what, this.sandboxId, work), signal, what)
    } catch (error) {
      const failure = translated(error, what, this.sandboxId)
      throw failure.code === 'not_found' ? gone(this.sandboxId, failure) : failure
    }
  }
}

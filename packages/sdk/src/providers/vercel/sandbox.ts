import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import type { NormalNetwork } from '../../core/network/normal.ts'
import type { SecretSource } from '../../core/network/secret-values.ts'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
import { randomId } from '../../shared/ids.ts'
import type {
  CallOptions,
  OpenShellOptions,
  ProcessInfo,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
} from '../../spec/index.ts'
import type { Account } from './account.ts'
import { translated, translating } from './errors.ts'
import { resolved, VercelFiles } from './files.ts'
import { Guest } from './guest/guest.ts'
import { networkPolicyOf } from './network.ts'
import type { VendorSandbox } from './sdk.ts'
import { idOf, infoOfSandbox, nameOf, notFound, portsOf, readyTags, tagsOf } from './translation.ts'

/** The vendor's minimum. */
const shortestExpirationMs = 24 * 60 * 60_000

export interface SandboxPlace {
  readonly account: Account
  readonly namePrefix: string
  readonly silenceMs: number
  readonly secrets: SecretSource | undefined
}

/**
 * One sandbox, bound to one of its runs. All requests go to the run, never to the sandbox: the SDK would restart a stopped
 * sandbox on any call, and our handles promise not to.
 */
export class VercelSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly files: VercelFiles
  readonly #place: SandboxPlace
  readonly #vendorName: string
  readonly #createdAt: number
  #guest: Guest
  #ports: readonly number[]

  #network: NormalNetwork | undefined

  constructor(place: SandboxPlace, sandbox: VendorSandbox, network?: NormalNetwork) {
    this.#network = network
    this.#place = place
    this.#vendorName = sandbox.name
    this.#createdAt = sandbox.createdAt.getTime()
    this.sandboxId = idOf(sandbox.name, this.#createdAt)
    const name = nameOf(sandbox.tags)
    if (name !== undefined) this.name = name
    this.workdir = sandbox.currentSession().cwd
    this.writablePaths = [this.workdir, '/tmp']
    this.#ports = portsOf(sandbox)
    this.#guest = this.#bound(sandbox)
    this.files = new VercelFiles(() => this.#guest, this.workdir)
  }

  get ports(): readonly number[] {
    return this.#ports
  }

  /** Unknown until it is set: the vendor does not return the names of secrets. */
  get network(): NormalNetwork | undefined {
    return this.#network
  }

  async info({ signal }: CallOptions): Promise<SandboxInfo> {
    return infoOfSandbox(await this.#fresh(signal))
  }

  spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const cwd = resolved(this.workdir, spec.cwd ?? '.')
    return startGuest(this.#guest.link(), spec, { cwd, env: spec.env }, call)
  }

  getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    return findGuest(this.#guest.link(), execId, call)
  }

  listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    return listGuests(this.#guest.link(), call)
  }

  openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'vercel' }, options, call)
  }

  async getEndpoint(port: number, { signal }: CallOptions): Promise<SandboxEndpoint> {
    // A request replaces the whole list of ports, so ports are added one at a time.
    return this.#place.account.transport.turn(`ports of ${this.#vendorName}`, async () => {
      const sandbox = await this.#running(signal)
      const known = () => sandbox.routes.find((route) => route.port === port)
      if (!known()) {
        const ports = [...sandbox.routes.map((route) => route.port), port]
        await translating(sandbox.update({ ports }, { signal }), { signal })
      }
      this.#ports = portsOf(sandbox)
      // Prefer the address from the routes: the SDK always builds one of the vendor's.
      return { url: known()?.url ?? sandbox.domain(port), headers: {} }
    })
  }

  async stop({ signal }: CallOptions): Promise<void> {
    const sandbox = await this.#fresh(signal)
    if (sandbox.status !== 'running' && sandbox.status !== 'pending') return
    this.#refuseOther(sandbox)
    await translating(this.#guest.session.stop({ signal }), { signal })
  }

  async start({ signal }: CallOptions): Promise<void> {
    await this.#fresh(signal)
    await this.#resume(signal)
  }

  /** The vendor stops a sandbox to save it. We start it again and rebind this handle; its programs have ended. */
  async snapshot(_name: string | undefined, { signal }: CallOptions): Promise<{ snapshotId: string }> {
    return { snapshotId: await this.#save({}, signal) }
  }

  /** Forks from a new snapshot: the vendor's own fork uses the last snapshot. */
  async fork(count: number, { signal }: CallOptions): Promise<Array<VercelSandbox | Error>> {
    const { account } = this.#place
    const { label, labels } = await this.info({ signal })
    // Keep the snapshot: sandbox and forks start from it until they have their own. Each use postpones its expiry.
    account.passing(await this.#save({ expiration: shortestExpirationMs }, signal))
    throwIfAborted(signal, 'Forking the sandbox')
    const copies = Array.from({ length: count }, () => this.#copy(tagsOf({ label, labels }, false)))
    const unmake = (all: Array<VercelSandbox | Error>) =>
      Promise.all(all.map((copy) => (copy instanceof Error ? false : copy.destroy({}))))
    return undoneOnAbort(Promise.all(copies), unmake, signal, 'Forking the sandbox')
  }

  /** The vendor extends the remaining time; our time starts now. So only the difference is added. */
  async extendTimeout(ms: number, { signal }: CallOptions): Promise<void> {
    const sandbox = await this.#running(signal)
    const missingMs = Date.now() + ms - (sandbox.expiresAt?.getTime() ?? Infinity)
    if (missingMs <= 0) return
    await this.#guest.do((session) => session.extendTimeout(Math.ceil(missingMs), { signal }), signal)
  }

  async setNetwork(network: NormalNetwork, { signal }: CallOptions): Promise<void> {
    const networkPolicy = await networkPolicyOf(network, this.#place.secrets)
    const sandbox = await this.#running(signal)
    await translating(sandbox.update({ networkPolicy }, { signal }), { signal })
    this.#network = network
  }

  async ready({ signal }: CallOptions): Promise<void> {
    const sandbox = await this.#fresh(signal)
    await translating(sandbox.update({ tags: readyTags(sandbox.tags) }, { signal }), { signal })
  }

  async destroy({ signal }: CallOptions): Promise<boolean> {
    try {
      await this.#place.account.delete(await this.#fresh(signal), signal)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** Reports the snapshot even if the sandbox does not start again. */
  async #save(options: { expiration?: number }, signal: AbortSignal | undefined): Promise<string> {
    await this.#running(signal)
    const { snapshotId } = await this.#guest.do((session) => session.snapshot({ ...options, signal }), signal)
    await this.#resume().catch((error: unknown) => {
      if (!SandboxError.is(error)) throw error
      throw new SandboxError(
        error.code,
        `The snapshot exists, but restarting the sandbox failed: ${error.message}`,
        {
          ...error.toJSON(),
          hint: `The snapshot is ${snapshotId}. Start the sandbox with start().`,
          sandboxId: this.sandboxId,
          details: { ...error.details, snapshotId },
          cause: error,
        },
      )
    })
    return snapshotId
  }

  /** Never rejects: one failed fork does not affect the others. */
  async #copy(tags: Record<string, string>): Promise<VercelSandbox | Error> {
    const { account, namePrefix } = this.#place
    const params = { name: `${namePrefix}${randomId()}`, tags }
    try {
      return new VercelSandbox(this.#place, await account.fork(this.#vendorName, params))
    } catch (error) {
      return unmade(error, () => account.unmake(params), params.name).then(
        () => error as Error,
        (worse: Error) => worse,
      )
    }
  }

  /** The current sandbox, if it is still the one that this handle refers to. */
  async #fresh(signal: AbortSignal | undefined): Promise<VendorSandbox> {
    const sandbox = await this.#place.account.find(this.#vendorName, signal)
    if (sandbox?.createdAt.getTime() === this.#createdAt) return sandbox
    throw notFound(this.sandboxId)
  }

  async #running(signal: AbortSignal | undefined): Promise<VendorSandbox> {
    const sandbox = await this.#fresh(signal)
    this.#refuseOther(sandbox)
    if (sandbox.status === 'running') return sandbox
    throw this.#notRunning(sandbox.status)
  }

  async #resume(signal?: AbortSignal): Promise<void> {
    const sandbox = await this.#place.account.get(this.#vendorName, { resume: true, signal })
    if (sandbox.createdAt.getTime() !== this.#createdAt) throw notFound(this.sandboxId)
    this.#guest = this.#bound(sandbox)
  }

  #bound(sandbox: VendorSandbox): Guest {
    const place = { sandboxId: this.sandboxId, silenceMs: this.#place.silenceMs }
    return new Guest(sandbox.currentSession(), place, (error, signal) => this.#explained(error, signal))
  }

  #refuseOther(sandbox: VendorSandbox): void {
    if (sandbox.currentSession().sessionId === this.#guest.session.sessionId) return
    throw new SandboxError('interrupted', `The sandbox ${this.sandboxId} was restarted.`, {
      provider: 'vercel',
      sandboxId: this.sandboxId,
    })
  }

  #notRunning(status: string, cause?: SandboxError): SandboxError {
    return new SandboxError('not_running', `The sandbox ${this.sandboxId} is ${status}.`, {
      provider: 'vercel',
      sandboxId: this.sandboxId,
      cause,
      requestId: cause?.requestId,
    })
  }

  /** The vendor reports only that the run is over. Another request tells whether the sandbox has a new run, or is gone. */
  async #explained(error: unknown, signal: AbortSignal | undefined): Promise<unknown> {
    const known = translated(error, { signal })
    if (!SandboxError.is(known, 'not_running', 'not_found') || known.sandboxId !== undefined) return known
    try {
      const sandbox = await this.#fresh(undefined)
      this.#refuseOther(sandbox)
      // The run exists, so something inside it is missing.
      if (known.code === 'not_found' && sandbox.status === 'running') return known
      return this.#notRunning(sandbox.status, known)
    } catch (found) {
      return found
    }
  }
}

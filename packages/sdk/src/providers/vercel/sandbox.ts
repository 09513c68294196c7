import type { ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
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
import { unpacked, VercelFiles } from './files.ts'
import { Guest } from './guest/guest.ts'
import * as scripts from './guest/programs.ts'
import { findProcess, type ProcessPlace, startProcess, type VercelProcess } from './process.ts'
import { exitOf } from './process-log.ts'
import type { VendorSandbox } from './sdk.ts'
import { idOf, infoOfSandbox, nameOf, notFound, readyTags, tagsOf } from './translation.ts'

/** The vendor's minimum. */
const shortestExpirationMs = 24 * 60 * 60_000

export interface SandboxPlace {
  readonly account: Account
  readonly namePrefix: string
  readonly silenceMs: number
}

/**
 * One sandbox, bound to one of its runs. All requests go to the run, never to the sandbox: the SDK would restart a stopped
 * sandbox on any call, and our handles promise not to.
 */
export class VercelSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly files: VercelFiles
  readonly #place: SandboxPlace
  readonly #vendorName: string
  readonly #createdAt: number
  #guest: Guest

  constructor(place: SandboxPlace, sandbox: VendorSandbox) {
    this.#place = place
    this.#vendorName = sandbox.name
    this.#createdAt = sandbox.createdAt.getTime()
    this.sandboxId = idOf(sandbox.name, this.#createdAt)
    const name = nameOf(sandbox.tags)
    if (name !== undefined) this.name = name
    this.workdir = sandbox.currentSession().cwd
    this.#guest = this.#bound(sandbox)
    this.files = new VercelFiles(() => this.#guest, this.workdir)
  }

  async info({ signal }: CallOptions): Promise<SandboxInfo> {
    return infoOfSandbox(await this.#fresh(signal))
  }

  spawn(spec: ProcessSpec, call: CallOptions): Promise<VercelProcess> {
    return startProcess(this.#processes, spec, call)
  }

  getProcess(execId: string, { signal }: CallOptions): Promise<VercelProcess> {
    return findProcess(this.#processes, execId, signal)
  }

  async listProcesses({ signal }: CallOptions): Promise<ProcessInfo[]> {
    const { exitCode, stdout } = await this.#guest.ask(scripts.list, [this.#guest.root], signal)
    if (exitCode !== 0)
      throw new SandboxError('provider_error', `The programs could not be listed (${exitCode}).`)
    const lines = stdout.split('\n').filter((line) => line !== '')
    return lines.map((line) => {
      const [execId = '', , state = '', argv = ''] = line.split('\t')
      const [cmd, ...args] = unpacked(argv).split('\0').slice(0, -1)
      const exit = exitOf(state)
      return {
        execId,
        running: !exit,
        exit,
        ...(cmd === undefined ? {} : { cmd, args }),
      }
    })
  }

  openShell(options: OpenShellOptions, call: CallOptions): Promise<SandboxShell> {
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

  get #processes(): ProcessPlace {
    const { account, silenceMs } = this.#place
    return { guest: this.#guest, transport: account.transport, workdir: this.workdir, silenceMs }
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
    return new Guest(sandbox.currentSession(), (error, signal) => this.#explained(error, signal))
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

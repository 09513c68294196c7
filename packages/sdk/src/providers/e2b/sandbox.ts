import type { Checked, CreateSpec, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import type { NormalNetwork } from '../../core/network/normal.ts'
import type { SecretSource } from '../../core/network/secret-values.ts'
import { SandboxError } from '../../errors.ts'
import { undoneOnAbort, unmade } from '../../shared/calls/undo.ts'
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
import type { Account } from './account.ts'
import { E2BFiles } from './files.ts'
import { Guest } from './guest/guest.ts'
import { type Incarnation, type Incarnations, notRunning } from './incarnation.ts'
import { networkOf } from './network.ts'
import type { VendorSandbox } from './sdk.ts'
import { openTerminal } from './terminal.ts'
import { infoOf, isId } from './translation.ts'

export interface SandboxHome {
  readonly account: Account
  readonly incarnations: Incarnations
  readonly secrets: SecretSource | undefined
  /** Returns the running sandbox with the address of its data plane. */
  connect(sandboxId: string, call: CallOptions): Promise<Incarnation>
}

/** A handle's view of one start of a sandbox, or of none while it is stopped or paused. */
export class E2BSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly ports: readonly number[]
  readonly files: E2BFiles
  readonly #home: SandboxHome
  readonly #answerMs: number
  #incarnation: Incarnation | undefined
  #network: NormalNetwork | undefined

  constructor(
    home: SandboxHome,
    sandboxId: string,
    incarnation: Incarnation | undefined,
    known: Pick<CreateSpec, 'ports' | 'network'> = {},
  ) {
    this.#home = home
    this.sandboxId = sandboxId
    this.ports = known.ports ?? []
    this.#network = known.network
    this.#incarnation = incarnation
    this.workdir = incarnation?.workdir ?? '/home/user'
    this.writablePaths = [this.workdir, '/tmp']
    this.#answerMs = (home.account.access.requestTimeoutMs ?? 60_000) || 2 ** 31 - 1
    this.files = new E2BFiles(() => this.#guest(), this.#answerMs)
  }

  /** Unknown until it is set: the vendor does not return the names of secrets. */
  get network(): NormalNetwork | undefined {
    return this.#network
  }

  async info({ signal }: CallOptions): Promise<SandboxInfo> {
    const { account, incarnations } = this.#home
    return infoOf(await account.info(this.sandboxId, signal), incarnations.rest.get(this.sandboxId))
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const guest = this.#guest()
    await guest.check()
    const { workdir } = guest.incarnation
    const cwd =
      spec.cwd === undefined ? workdir : spec.cwd.startsWith('/') ? spec.cwd : `${workdir}/${spec.cwd}`
    return startGuest(guest.link(), spec, { cwd, env: spec.env }, call)
  }

  async getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    const guest = this.#guest()
    await guest.check()
    return findGuest(guest.link(), execId, call)
  }

  async listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    const guest = this.#guest()
    await guest.check()
    return listGuests(guest.link(), call)
  }

  openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'e2b' }, options, call)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const guest = this.#guest()
    await guest.check()
    const { terminals } = guest.incarnation
    const terminalId = options.terminalId ?? `terminal-${randomId()}`
    const known = terminals.get(terminalId)
    if (known) return known
    const opening = openTerminal(guest, { ...options, terminalId }, call)
    terminals.set(terminalId, opening)
    opening.catch(() => terminals.delete(terminalId))
    await forgetOldest(terminals)
    return opening
  }

  /** Uses headers if one address serves all sandboxes; otherwise each sandbox has its own host. */
  async getEndpoint(port: number, _: CallOptions): Promise<SandboxEndpoint> {
    const guest = this.#guest()
    await guest.check()
    const { sandbox } = guest.incarnation
    const { sandboxUrl } = this.#home.account.access
    const token = sandbox.trafficAccessToken
    const headers = {
      ...(token ? { 'E2B-Traffic-Access-Token': token } : {}),
      ...(sandboxUrl ? { 'E2b-Sandbox-Id': this.sandboxId, 'E2b-Sandbox-Port': String(port) } : {}),
    }
    return { url: sandboxUrl ?? `https://${sandbox.getHost(port)}`, headers }
  }

  async stop(call: CallOptions): Promise<void> {
    const { account, incarnations } = this.#home
    const info = await account.info(this.sandboxId, call.signal)
    if (info.state !== 'running') return
    const guest = this.#guest()
    await guest.check()
    await guest.manage((sandbox, how) => sandbox.pause({ keepMemory: false, ...how }), call.signal)
    incarnations.stopped(guest.incarnation)
  }

  async start(call: CallOptions): Promise<void> {
    const { account, incarnations } = this.#home
    const { state } = await account.info(this.sandboxId, call.signal)
    const current = incarnations.current(this.sandboxId)
    if (state === 'running' && current && !current.over) this.#incarnation = current
    else this.#incarnation = await this.#home.connect(this.sandboxId, call)
  }

  async pause(call: CallOptions): Promise<void> {
    const guest = this.#guest()
    await guest.check()
    // Recorded first: streams of programs break with the pause, and must not count as lost.
    guest.incarnation.pause()
    try {
      await guest.manage((sandbox, how) => sandbox.pause(how), call.signal)
      this.#home.incarnations.rest.set(this.sandboxId, 'paused')
    } catch (error) {
      guest.incarnation.resume()
      throw error
    }
  }

  async resume(call: CallOptions): Promise<void> {
    const guest = this.#guest()
    await guest.manage((sandbox, how) => sandbox.connect({ timeoutMs: resumeMs, ...how }), call.signal)
    this.#home.incarnations.rest.delete(this.sandboxId)
    guest.incarnation.resume()
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    const guest = this.#guest()
    await guest.check()
    const { snapshotId } = await guest.incarnation.across(() =>
      guest.manage((sandbox, how) => sandbox.createSnapshot({ name, ...how }), call.signal),
    )
    return { snapshotId }
  }

  async fork(count: number, { signal }: CallOptions): Promise<Array<E2BSandbox | Error>> {
    const guest = this.#guest()
    await guest.check()
    const { endAt } = await this.#home.account.info(this.sandboxId, signal)
    const timeoutMs = Math.max(1000, endAt.getTime() - Date.now())
    // Do not cancel the request: only its response tells what to remove.
    const making = guest.incarnation
      .across(() => guest.manage((sandbox, how) => sandbox.fork({ count, timeoutMs, ...how })))
      .then((copies) =>
        Promise.all(copies.map((copy) => (copy instanceof Error ? guest.explain(copy) : this.#joined(copy)))),
      )
    const unmake = (all: Array<E2BSandbox | Error>) =>
      Promise.all(all.map((copy) => (copy instanceof Error ? false : copy.destroy({}))))
    return undoneOnAbort(making, unmake, signal, 'Forking the sandbox')
  }

  async extendTimeout(ms: number, call: CallOptions): Promise<void> {
    const { endAt, state } = await this.#home.account.info(this.sandboxId, call.signal)
    if (state !== 'running') throw notRunning(this.sandboxId, state)
    // The vendor replaces the lifetime, even with a shorter one.
    if (endAt.getTime() >= Date.now() + ms) return
    await this.#guest().manage((sandbox, how) => sandbox.setTimeout(ms, how), call.signal)
  }

  async setNetwork(network: NormalNetwork, call: CallOptions): Promise<void> {
    const egress = await networkOf(network, this.#home.secrets)
    const guest = this.#guest()
    await guest.check()
    await guest.manage((sandbox, how) => sandbox.updateNetwork(egress, how), call.signal)
    this.#network = network
  }

  async destroy({ signal }: CallOptions): Promise<boolean> {
    return destroySandbox(this.#home, this.sandboxId, signal)
  }

  /** Never rejects: one failed fork does not affect the others. */
  async #joined({ sandboxId }: VendorSandbox): Promise<E2BSandbox | Error> {
    try {
      const incarnation = await this.#home.connect(sandboxId, {})
      return new E2BSandbox(this.#home, sandboxId, incarnation, { ports: this.ports })
    } catch (error) {
      return unmade(error, () => destroySandbox(this.#home, sandboxId, undefined), sandboxId).then(
        () => error as Error,
        (worse: Error) => worse,
      )
    }
  }

  #guest(): Guest {
    const incarnation = this.#incarnation
    if (incarnation)
      return new Guest(incarnation, this.#answerMs, () => this.#home.account.info(this.sandboxId))
    throw notRunning(this.sandboxId, 'paused')
  }
}

/** The lifetime of a resumed sandbox, unless it is extended. The vendor never shortens the lifetime of a running one. */
export const resumeMs = 300_000

export async function destroySandbox(
  { account, incarnations }: SandboxHome,
  sandboxId: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (!isId(sandboxId)) return false
  const killed = await account
    .call((sdk, access) => sdk.kill(sandboxId, access), { signal, sandboxId })
    .catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    })
  incarnations.forget(sandboxId)
  return killed
}

const mostEnded = 200

/** Bounds the memory of ended sandboxes. */
async function forgetOldest(all: Map<string, Promise<{ ended: boolean }>>): Promise<void> {
  if (all.size <= mostEnded) return
  for (const [id, one] of all) {
    const known = await Promise.race([one.catch(() => undefined), Promise.resolve(undefined)])
    if (known?.ended) all.delete(id)
    if (all.size <= mostEnded) return
  }
}

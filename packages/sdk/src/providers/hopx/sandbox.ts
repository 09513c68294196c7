import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import { openGuestTerminal } from '../../core/guest-terminal.ts'
import { SandboxError } from '../../errors.ts'
import type { Launch } from '../../shared/guest/launch.ts'
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
import type { Account } from './account.ts'
import { HopxFiles, resolved } from './files.ts'
import type { Guest } from './guest/guest.ts'
import type { Marks } from './marks.ts'
import { infoOf, notRunning, portUrl, statusOf, type VendorSandbox } from './translation.ts'

/** Prefers bash if the template has it. */
const loginShell = {
  cmd: 'sh',
  args: ['-c', 'if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi'],
}

export interface SandboxHome {
  readonly account: Account
  readonly marks: Marks
  /** Waits until the vendor has finished changing the sandbox. */
  settled(sandboxId: string, wanted: 'running' | 'paused', call: CallOptions): Promise<VendorSandbox>
  /** A sandbox that runs, with its commands. */
  bound(vendor: VendorSandbox, call: CallOptions): Promise<Guest>
}

/** A sandbox. The vendor never starts one again, so a handle is valid until its end. */
export class HopxSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly ports: readonly number[]
  readonly network?: Network
  readonly files = new HopxFiles((call) => this.#running(call))
  readonly #home: SandboxHome
  #guest: Guest | undefined

  /** Without a guest, the sandbox does not run. */
  constructor(
    home: SandboxHome,
    vendor: VendorSandbox,
    guest: Guest | undefined,
    ports: readonly number[] = [],
  ) {
    this.#home = home
    this.#guest = guest
    this.sandboxId = vendor.id
    this.ports = ports
    if (vendor.internetAccess !== undefined) this.network = vendor.internetAccess ? 'open' : 'none'
  }

  get workdir(): string {
    return this.#guest?.workdir ?? '/'
  }

  /** Unknown while the sandbox does not run: only a running one tells its working directory. */
  get writablePaths(): readonly string[] | undefined {
    return this.#guest && [this.workdir, '/tmp']
  }

  async info(call: CallOptions): Promise<SandboxInfo> {
    const vendor = await this.#home.account.info(this.sandboxId, call)
    return infoOf(vendor, await this.#home.marks.of(vendor, call))
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const guest = await this.#running(call)
    return startGuest(guest.link(), spec, launchOf(guest, spec.cwd, spec.env), call)
  }

  async getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    return findGuest((await this.#running(call)).link(), execId, call)
  }

  async listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    return listGuests((await this.#running(call)).link(), call)
  }

  openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'hopx' }, options, call)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const guest = await this.#running(call)
    const program = options.cmd === undefined ? { ...options, ...loginShell } : options
    return openGuestTerminal(guest.link(), launchOf(guest, options.cwd, options.env ?? {}), program, call)
  }

  /** The vendor opens every port to the public. */
  async getEndpoint(port: number, call: CallOptions): Promise<SandboxEndpoint> {
    const { host } = await this.#info('running', call)
    const url = portUrl(host ?? '', port)
    if (url !== undefined) return { url, headers: {} }
    throw new SandboxError('provider_error', 'Hopx did not return an address that has one for each port.', {
      provider: 'hopx',
      sandboxId: this.sandboxId,
      details: { port },
    })
  }

  async pause(call: CallOptions): Promise<void> {
    await this.#info('running', call)
    await this.#home.account.pause(this.sandboxId, call)
    await this.#home.settled(this.sandboxId, 'paused', call)
  }

  async resume(call: CallOptions): Promise<void> {
    const { account } = this.#home
    const vendor = await account.info(this.sandboxId, call)
    if (statusOf(vendor) === 'paused') await account.resume(this.sandboxId, call)
    else if (statusOf(vendor) !== 'running') throw notRunning(this.sandboxId, vendor.status)
    await this.#home.settled(this.sandboxId, 'running', call)
    await this.#running(call)
  }

  /** The vendor replaces the lifetime, even with a shorter one, and counts whole seconds. */
  async extendTimeout(ms: number, call: CallOptions): Promise<void> {
    const { expiresAt } = await this.#info('running', call)
    if (expiresAt && expiresAt.getTime() >= Date.now() + ms) return
    await this.#home.account.setTimeout(this.sandboxId, Math.ceil(ms / 1000), call)
  }

  async destroy(call: CallOptions): Promise<boolean> {
    const removed = await this.#home.account.remove(this.sandboxId, call)
    this.#home.marks.forget(this.sandboxId)
    return removed
  }

  async #info(wanted: 'running', call: CallOptions): Promise<VendorSandbox> {
    const vendor = await this.#home.account.info(this.sandboxId, call)
    if (statusOf(vendor) === wanted) return vendor
    throw notRunning(this.sandboxId, vendor.status)
  }

  /** The commands of the sandbox; of one that did not run when this handle was made, too. */
  async #running(call: CallOptions): Promise<Guest> {
    this.#guest ??= await this.#home.bound(await this.#info('running', call), call)
    return this.#guest
  }
}

function launchOf(
  { workdir }: Guest,
  cwd: string | undefined,
  env: Readonly<Record<string, string>>,
): Launch {
  return { cwd: resolved(workdir, cwd ?? '.'), env }
}

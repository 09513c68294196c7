import type { ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import type {
  CallOptions,
  OpenShellOptions,
  OpenTerminalOptions,
  SandboxEndpoint,
  SandboxInfo,
  SandboxShell,
  SandboxTerminal,
} from '../../spec/index.ts'
import { E2BFiles } from './files.ts'
import { Guest } from './guest.ts'
import { type Life, type Lives, notRunning } from './lives.ts'
import { startProcess } from './process.ts'
import { openTerminal } from './terminal.ts'
import { infoOf, isId } from './translation.ts'
import type { Vendor } from './vendor.ts'

/** What sandboxes need of their driver. */
export interface SandboxHome {
  readonly vendor: Vendor
  readonly lives: Lives
  /** Running, with its data plane known. */
  connect(sandboxId: string, call: CallOptions): Promise<Life>
}

/** One start of a sandbox, as one handle sees it; none while it rests. */
export class E2BSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly workdir: string
  readonly files: E2BFiles
  readonly #home: SandboxHome
  #life: Life | undefined

  constructor(home: SandboxHome, sandboxId: string, life: Life | undefined) {
    this.#home = home
    this.sandboxId = sandboxId
    this.#life = life
    this.workdir = life?.workdir ?? '/home/user'
    this.files = new E2BFiles(
      () => this.#guest(),
      (home.vendor.access.requestTimeoutMs ?? 60_000) || 2 ** 31 - 1,
    )
  }

  async info({ signal }: CallOptions): Promise<SandboxInfo> {
    const { vendor, lives } = this.#home
    return infoOf(await vendor.info(this.sandboxId, signal), lives.rest.get(this.sandboxId))
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const guest = this.#guest()
    await guest.check()
    const { processes } = guest.life
    const processId = spec.processId ?? randomId()
    const known = processes.get(processId)
    if (known) return known
    const starting = startProcess(guest, { ...spec, processId }, call)
    processes.set(processId, starting)
    starting.catch(() => processes.delete(processId))
    await forgetOldest(processes)
    return starting
  }

  openShell(options: OpenShellOptions, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'e2b' }, options, call)
  }

  async openTerminal(
    options: OpenTerminalOptions & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const guest = this.#guest()
    await guest.check()
    const { terminals } = guest.life
    const terminalId = options.terminalId ?? `terminal-${randomId()}`
    const known = terminals.get(terminalId)
    if (known) return known
    const opening = openTerminal(guest, { ...options, terminalId }, call)
    terminals.set(terminalId, opening)
    opening.catch(() => terminals.delete(terminalId))
    await forgetOldest(terminals)
    return opening
  }

  /** By headers where one address serves all sandboxes; by a host of its own elsewhere. */
  async getEndpoint(port: number, _: CallOptions): Promise<SandboxEndpoint> {
    const guest = this.#guest()
    await guest.check()
    const { sandbox } = guest.life
    const { sandboxUrl } = this.#home.vendor.access
    const token = sandbox.trafficAccessToken
    const headers = {
      ...(token ? { 'E2B-Traffic-Access-Token': token } : {}),
      ...(sandboxUrl ? { 'E2b-Sandbox-Id': this.sandboxId, 'E2b-Sandbox-Port': String(port) } : {}),
    }
    return { url: sandboxUrl ?? `https://${sandbox.getHost(port)}`, headers }
  }

  async stop(call: CallOptions): Promise<void> {
    const { vendor, lives } = this.#home
    const info = await vendor.info(this.sandboxId, call.signal)
    if (info.state !== 'running') return
    const guest = this.#guest()
    await guest.check()
    await guest.do((sandbox) => sandbox.pause({ keepMemory: false, ...signalOf(call) }), call.signal)
    lives.stopped(guest.life)
  }

  async start(call: CallOptions): Promise<void> {
    const { vendor, lives } = this.#home
    const { state } = await vendor.info(this.sandboxId, call.signal)
    const current = lives.current(this.sandboxId)
    if (state === 'running' && current && !current.over) this.#life = current
    else this.#life = await this.#home.connect(this.sandboxId, call)
  }

  async pause(call: CallOptions): Promise<void> {
    const guest = this.#guest()
    await guest.check()
    // Noted first: streams of programs break with it, and must not be taken for lost.
    guest.life.pause()
    try {
      await guest.do((sandbox) => sandbox.pause(signalOf(call)), call.signal)
      this.#home.lives.rest.set(this.sandboxId, 'paused')
    } catch (error) {
      guest.life.resume()
      throw error
    }
  }

  async resume(call: CallOptions): Promise<void> {
    const guest = this.#guest()
    const timeoutMs = resumeMs
    await guest.do((sandbox) => sandbox.connect({ timeoutMs, ...signalOf(call) }), call.signal)
    this.#home.lives.rest.delete(this.sandboxId)
    guest.life.resume()
  }

  async snapshot(name: string | undefined, call: CallOptions): Promise<{ snapshotId: string }> {
    const guest = this.#guest()
    await guest.check()
    const { snapshotId } = await guest.do(
      (sandbox) => sandbox.createSnapshot({ ...(name === undefined ? {} : { name }), ...signalOf(call) }),
      call.signal,
    )
    return { snapshotId }
  }

  async fork(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>> {
    const guest = this.#guest()
    await guest.check()
    const { endAt } = await this.#home.vendor.info(this.sandboxId, call.signal)
    const timeoutMs = Math.max(1000, endAt.getTime() - Date.now())
    const copies = await guest.do(
      (sandbox) => sandbox.fork({ count, timeoutMs, ...signalOf(call) }),
      call.signal,
    )
    return Promise.all(
      copies.map(async (copy) => {
        if (copy instanceof Error) return guest.explain(copy, call.signal)
        const life = await this.#home.connect(copy.sandboxId, {}).catch(async (error: unknown) => {
          await copy.kill().catch(() => {})
          return error as Error
        })
        return life instanceof Error ? life : new E2BSandbox(this.#home, copy.sandboxId, life)
      }),
    )
  }

  async extendLifetime(ms: number, call: CallOptions): Promise<void> {
    const { endAt, state } = await this.#home.vendor.info(this.sandboxId, call.signal)
    if (state !== 'running') throw notRunning(this.sandboxId, state)
    // The vendor sets it anew, also to less.
    if (endAt.getTime() >= Date.now() + ms) return
    await this.#guest().do((sandbox) => sandbox.setTimeout(ms, signalOf(call)), call.signal)
  }

  async destroy({ signal }: CallOptions): Promise<boolean> {
    return destroySandbox(this.#home, this.sandboxId, signal)
  }

  #guest(): Guest {
    const life = this.#life
    if (life) return new Guest(life, () => this.#home.vendor.info(this.sandboxId))
    throw notRunning(this.sandboxId, 'paused')
  }
}

/** How long a sandbox that is woken may run, if nobody says more. */
export const resumeMs = 300_000

export async function destroySandbox(
  { vendor, lives }: SandboxHome,
  sandboxId: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (!isId(sandboxId)) return false
  const killed = await vendor
    .call((sdk, access) => sdk.kill(sandboxId, access), { signal, sandboxId })
    .catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    })
  lives.forget(sandboxId)
  return killed
}

function signalOf({ signal }: CallOptions): { signal?: AbortSignal } {
  return signal ? { signal } : {}
}

const mostEnded = 200

/** What has ended is remembered for those who ask by its id, but not for ever. */
async function forgetOldest(all: Map<string, Promise<{ ended: boolean }>>): Promise<void> {
  if (all.size <= mostEnded) return
  for (const [id, one] of all) {
    const known = await Promise.race([one.catch(() => undefined), Promise.resolve(undefined)])
    if (known?.ended) all.delete(id)
    if (all.size <= mostEnded) return
  }
}

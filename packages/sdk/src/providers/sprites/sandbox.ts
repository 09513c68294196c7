import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from '../../core/driver.ts'
import { findGuest, listGuests, startGuest } from '../../core/guest-process.ts'
import { openGuestShell } from '../../core/guest-shell.ts'
import { openGuestTerminal } from '../../core/guest-terminal.ts'
import { SandboxError } from '../../errors.ts'
import { loginShell } from '../../shared/guest/launch.ts'
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
import { resolved, SpritesFiles } from './files.ts'
import { Guest } from './guest/guest.ts'
import type { VendorFacts } from './sdk.ts'
import { idOf, infoOf, nameOf, portsOf, readyLabels } from './translation.ts'

/** A handle on one sprite. The vendor stops and wakes it by itself; a program that ends with it is `interrupted`. */
export class SpritesSandbox implements SandboxDriver {
  readonly sandboxId: string
  readonly name?: string
  readonly workdir: string
  readonly writablePaths: readonly string[]
  readonly ports: readonly number[]
  readonly files: SpritesFiles
  readonly #account: Account
  readonly #guest: Guest

  private constructor(account: Account, facts: VendorFacts, guest: Guest, workdir: string) {
    this.#account = account
    this.#guest = guest
    this.sandboxId = guest.sandboxId
    const name = nameOf(facts)
    if (name !== undefined) this.name = name
    this.workdir = workdir
    this.writablePaths = [workdir, '/tmp']
    this.ports = portsOf(facts)
    this.files = new SpritesFiles(() => guest, workdir)
  }

  /** Reads the working directory. This also wakes the sprite, and proves that it responds. */
  static async bind(
    account: Account,
    facts: VendorFacts,
    { signal, envVars = {} }: CallOptions & { envVars?: Readonly<Record<string, string>> },
  ): Promise<SpritesSandbox> {
    const guest = new Guest(account, idOf(facts))
    const said = await guest.tell(bindScript, Object.keys(envVars), 'its working directory', signal)
    const end = said.indexOf('\n')
    const workdir = said.slice(end + 1)
    const missing = said.slice(0, Math.max(0, end))
    if (missing !== '' || !workdir.startsWith('/'))
      throw new SandboxError('provider_error', 'The new sprite is not usable.', {
        provider: 'sprites',
        sandboxId: guest.sandboxId,
        hint:
          missing === ''
            ? 'Its programs have no working directory.'
            : `Its programs lack variables of envVars: ${missing.trim().slice(0, 300)}.`,
      })
    return new SpritesSandbox(account, facts, guest, workdir)
  }

  async info({ signal }: CallOptions): Promise<SandboxInfo> {
    return infoOf(await this.#account.existing(this.sandboxId, signal))
  }

  spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    return startGuest(this.#guest.link(), spec, this.#launch(spec.cwd, spec.env), call)
  }

  getProcess(execId: string, call: CallOptions): Promise<ProcessDriver> {
    return findGuest(this.#guest.link(), execId, call)
  }

  listProcesses(call: CallOptions): Promise<ProcessInfo[]> {
    return listGuests(this.#guest.link(), call)
  }

  openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    return openGuestShell(this, { provider: 'sprites' }, options, call)
  }

  openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const program = options.cmd === undefined ? { ...options, ...loginShell } : options
    const launch = this.#launch(options.cwd, options.env ?? {})
    return openGuestTerminal(this.#guest.link(), launch, program, call)
  }

  /** The SDK listens on this machine and relays connections. The sprite's own URL serves one port, and needs the token. */
  async getEndpoint(port: number, { signal }: CallOptions): Promise<SandboxEndpoint> {
    const { name } = await this.#account.existing(this.sandboxId, signal)
    const listen = () => this.#account.call((client) => client.sprite(name).proxyPort(0, port, 'localhost'))
    const address = await this.#account.proxies.address(this.sandboxId, port, listen)
    return { url: `http://${address}`, headers: {}, forwarded: true }
  }

  async ready({ signal }: CallOptions): Promise<void> {
    const facts = await this.#account.existing(this.sandboxId, signal)
    const labels = readyLabels(facts)
    await this.#account.call((client) => client.updateSprite(facts.name, { labels }), { signal })
  }

  destroy({ signal }: CallOptions): Promise<boolean> {
    return this.#account.destroy(this.sandboxId, signal)
  }

  #launch(cwd: string | undefined, env: Readonly<Record<string, string>>) {
    return { cwd: resolved(this.workdir, cwd ?? '.'), env }
  }
}

/** NAME…: the names of missing variables, a newline, and the working directory. */
const bindScript = `for n do printenv "$n" >/dev/null || printf '%s ' "$n"; done; echo; printf %s "$(pwd -P)"`

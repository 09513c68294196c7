import { randomId } from '../shared/ids.ts'
import { absentBehaviour } from './absent.ts'
import { equal } from './assert.ts'
import type { CommandKit, OptionalProgram } from './command-kit.ts'
import { posixCommands } from './posix-commands.ts'
import { inTime, Trial } from './trial.ts'
import {
  type AnyProvider,
  type AnySandbox,
  type Behaviour,
  type ConformanceOptions,
  defaultLimits,
  type EgressTargets,
  type Limits,
} from './types.ts'

/** One run of the kit: the provider, the shared sandboxes and the cleanup. */
export class Session {
  readonly provider: AnyProvider
  readonly commands: CommandKit
  readonly limits: Limits
  readonly label = { 'sandkasten-conformance': randomId(10) }
  readonly #options: ConformanceOptions
  readonly #shared = new Map<string, Promise<AnySandbox>>()

  private constructor(provider: AnyProvider, options: ConformanceOptions) {
    this.provider = provider
    this.#options = options
    const { commands } = options
    this.commands = typeof commands === 'function' ? commands() : (commands ?? posixCommands())
    this.limits = { ...defaultLimits, ...options.limits }
  }

  static async open(options: ConformanceOptions): Promise<Session> {
    const session = new Session(await options.provider(), options)
    session.#checkExplained()
    return session
  }

  /** Runs a behaviour, or its replacement on this provider. Throws if it fails. */
  async run(behaviour: Behaviour): Promise<void> {
    const trial = new Trial(this, behaviour.group)
    try {
      await inTime((this.#replacement(behaviour) ?? behaviour).run(trial), this.limits.behaviourMs)
    } catch (error) {
      // The group's sandbox may be in any state; the next behaviour gets a new one.
      await this.#drop(behaviour.group)
      throw error
    } finally {
      await trial.cleanUp()
    }
  }

  /** Why a replacement is run, as a part of the title; undefined if the behaviour itself is run. */
  note(behaviour: Behaviour): string | undefined {
    const { needs, options } = missing(this.provider, behaviour)
    if (needs.length > 0) return `absent: ${needs.join(', ')}; its calls throw unsupported`
    if (options.length > 0)
      return `create() does not take ${options.join(', ')}; giving it throws unsupported`
    return undefined
  }

  /** The stated reason why a behaviour cannot run here. */
  excuse(behaviour: Behaviour): string | undefined {
    const { program, fact } = behaviour
    const unknown = fact && this.#options.without?.[fact]
    if (unknown !== undefined) return `no ${fact}: ${unknown}`
    if (program === undefined || this.#has(program) || this.note(behaviour) !== undefined) return undefined
    return `no program “${program}”: ${this.#options.without?.[program]}`
  }

  get targets(): EgressTargets {
    if (this.#options.egress) return this.#options.egress
    throw new Error('The conformance kit has no targets. Pass `egress`.')
  }

  get runtimes(): readonly string[] {
    return this.#options.runtimes ?? []
  }

  async shared(group: string): Promise<AnySandbox> {
    let sandbox = this.#shared.get(group)
    if (!sandbox) {
      sandbox = this.provider.create(new Trial(this, group).marked({}))
      this.#shared.set(group, sandbox)
    }
    return sandbox
  }

  async reopened(): Promise<AnyProvider | undefined> {
    return await this.#options.reopen?.()
  }

  async leftovers(sandboxId: string): Promise<readonly string[] | undefined> {
    return this.#options.leftovers?.(sandboxId)
  }

  /** Destroys shared sandboxes, then everything with the kit's label, and fails if such a sandbox was left. */
  async close(): Promise<void> {
    for (const group of [...this.#shared.keys()]) await this.#drop(group)
    if (!this.provider.createOptions.has('labels')) return
    const left = await this.provider.list({ labels: this.label })
    for (const { sandboxId } of left) await inTime(this.provider.destroy(sandboxId), 10_000)
    equal(left.length, 0, 'Sandboxes that behaviours made and could not destroy')
  }

  async #drop(group: string): Promise<void> {
    const sandbox = this.#shared.get(group)
    this.#shared.delete(group)
    try {
      if (sandbox) await inTime(this.provider.destroy((await sandbox).sandboxId), 10_000)
    } catch {}
  }

  #replacement(behaviour: Behaviour): Pick<Behaviour, 'run'> | undefined {
    const { needs, options } = missing(this.provider, behaviour)
    return needs.length > 0 || options.length > 0 ? absentBehaviour(needs, options) : undefined
  }

  #has(program: OptionalProgram): boolean {
    const { egress, without = {} } = this.#options
    if (program === 'connect' && egress === undefined) return false
    // The programs for a POSIX shell have `version`, which says nothing where a runtime is only a name.
    if (program === 'version' && without.version !== undefined) return false
    return this.commands[program] !== undefined
  }

  /** Each missing option must be explained in `without`. */
  #checkExplained(): void {
    const { without = {}, reopen, leftovers } = this.#options
    const { ports, egress } = this.provider.capabilities
    const given: Record<string, unknown> = { reopen, leftovers }
    if (ports) given.server = this.#has('server')
    if (egress) given.connect = this.#has('connect')
    if (this.provider.createOptions.has('runtime')) given.version = this.#has('version')
    for (const [what, value] of Object.entries(given)) {
      if (value || without[what as keyof typeof without]) continue
      throw new Error(
        `The conformance kit needs “${what}”. Pass it, or give the reason: { without: { ${what}: 'the reason' } }.`,
      )
    }
  }
}

function missing(provider: AnyProvider, behaviour: Behaviour) {
  return {
    needs: (behaviour.needs ?? []).filter((ability) => !provider.capabilities[ability]),
    options: (behaviour.options ?? []).filter((option) => !provider.createOptions.has(option)),
  }
}

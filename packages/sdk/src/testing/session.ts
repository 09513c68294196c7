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
  type Limits,
} from './types.ts'

/** One run of the kit: the provider, the shared sandboxes, and the promise to leave nothing. */
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
    const session = new Session((await options.provider()) as unknown as AnyProvider, options)
    session.#checkExplained()
    return session
  }

  /** Runs a behaviour, or what takes its place on this provider; throws when it does not hold. */
  async run(behaviour: Behaviour): Promise<void> {
    const trial = new Trial(this, behaviour.group)
    try {
      await inTime((this.#replacement(behaviour) ?? behaviour).run(trial), this.limits.behaviourMs)
    } catch (error) {
      // It may have left the group's sandbox in any state; the next behaviour gets a new one.
      await this.#drop(behaviour.group)
      throw error
    } finally {
      await trial.cleanUp()
    }
  }

  /** Why a behaviour is not run as it stands, in words for its title; undefined when it is. */
  note(behaviour: Behaviour): string | undefined {
    const { needs, options } = missing(this.provider, behaviour)
    if (needs.length > 0) return `absent: ${needs.join(', ')}; its calls throw unsupported`
    if (options.length > 0)
      return `create() does not take ${options.join(', ')}; giving it throws unsupported`
    return undefined
  }

  /** The stated reason for which a behaviour cannot be run here at all. */
  excuse(behaviour: Behaviour): string | undefined {
    const { program } = behaviour
    if (program === undefined || this.commands[program] || this.note(behaviour) !== undefined)
      return undefined
    return `no program “${program}”: ${this.#options.without?.[program]}`
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
    return (await this.#options.reopen?.()) as unknown as AnyProvider | undefined
  }

  async leftovers(sandboxId: string): Promise<readonly string[] | undefined> {
    return this.#options.leftovers?.(sandboxId)
  }

  /** Destroys what is shared, then whatever still carries the kit's label, and fails if there was anything. */
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
    } catch {
      // close() lists what is left and says so.
    }
  }

  #replacement(behaviour: Behaviour): Pick<Behaviour, 'run'> | undefined {
    const { needs, options } = missing(this.provider, behaviour)
    return needs.length > 0 || options.length > 0 ? absentBehaviour(needs, options) : undefined
  }

  /** Nothing is left out silently: what the caller did not give, the caller explains. */
  #checkExplained(): void {
    const { without = {}, reopen, leftovers } = this.#options
    const optional: OptionalProgram[] = this.provider.capabilities.ports ? ['server'] : []
    const given: Record<string, unknown> = { reopen, leftovers }
    for (const program of optional) given[program] = this.commands[program]
    for (const [what, value] of Object.entries(given)) {
      if (value || without[what as keyof typeof without]) continue
      throw new Error(
        `The conformance kit was given no “${what}”. Give it one, or say why not: { without: { ${what}: 'the reason' } }.`,
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

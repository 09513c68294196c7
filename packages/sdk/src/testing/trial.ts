import { randomId } from '../shared/ids.ts'
import type { CreateSandboxOpts, ProcessHandle, RunCommandOptions, SpawnOptions } from '../spec/index.ts'
import { ok } from './assert.ts'
import type { Command, CommandKit } from './command-kit.ts'
import type { Session } from './session.ts'
import type { AnyProvider, AnySandbox, EgressTargets, Limits, NetworkTarget } from './types.ts'

/**
 * The context of one run of a behaviour. Everything created through it is removed afterwards, also if the behaviour
 * fails or hangs.
 */
export class Trial {
  readonly provider: AnyProvider
  readonly commands: CommandKit
  readonly limits: Limits
  readonly #session: Session
  readonly #group: string
  readonly #undo: Array<() => unknown> = []

  constructor(session: Session, group: string) {
    this.#session = session
    this.#group = group
    this.provider = session.provider
    this.commands = session.commands
    this.limits = session.limits
  }

  /** The group's shared, running sandbox. Only for behaviours that do not stop or destroy it. */
  sandbox(): Promise<AnySandbox> {
    return this.#session.shared(this.#group)
  }

  async create(options: CreateSandboxOpts = {}): Promise<AnySandbox> {
    return this.adopt(await this.provider.create(this.marked(options)))
  }

  /** Adds the kit's label, which identifies leftovers. */
  marked<T extends CreateSandboxOpts>(options: T): T {
    if (!this.provider.createOptions.has('labels')) return options
    return { ...options, labels: { ...this.#session.label, ...options.labels } }
  }

  /** Destroys the sandbox afterwards, however the behaviour obtained it. */
  adopt(sandbox: AnySandbox): AnySandbox {
    this.later(() => this.provider.destroy(sandbox.sandboxId))
    return sandbox
  }

  /** Where programs try the network. Only for behaviours with the program `connect`. */
  get targets(): EgressTargets {
    return this.#session.targets
  }

  /** Runtimes that the provider must have. */
  get runtimes(): readonly string[] {
    return this.#session.runtimes
  }

  connect({ host, port }: NetworkTarget): Command {
    return this.commands.connect!(host, port)
  }

  run(
    sandbox: Pick<AnySandbox, 'runCommand'>,
    command: Command,
    options: Omit<RunCommandOptions, 'cmd' | 'args'> = {},
  ) {
    return sandbox.runCommand({ ...command, ...options })
  }

  /** Starts a program and kills it afterwards. */
  async spawn(
    sandbox: Pick<AnySandbox, 'spawn'>,
    command: Command,
    options: Omit<SpawnOptions, 'cmd' | 'args'> = {},
  ): Promise<ProcessHandle> {
    const process = await sandbox.spawn({ ...command, ...options })
    this.later(() => process.kill('SIGKILL'))
    return process
  }

  /** Creates a folder for this behaviour. Returns its path relative to the workdir. */
  async folder(sandbox: Pick<AnySandbox, 'files'>): Promise<string> {
    const path = `kit-${randomId(8)}`
    await sandbox.files.mkdir(path)
    return path
  }

  unique(prefix = 'kit'): string {
    return `${prefix}-${randomId(10)}`
  }

  /** The provider as another process would open it; undefined if `without` explains its absence. */
  async reopened(): Promise<AnyProvider | undefined> {
    return this.#session.reopened()
  }

  /** What an outside observer finds left of a sandbox; undefined without an observer. */
  async leftovers(sandboxId: string): Promise<readonly string[] | undefined> {
    return this.#session.leftovers(sandboxId)
  }

  /** Runs afterwards, in reverse order. Cleanup failures do not hide the behaviour's own. */
  later(undo: () => unknown): void {
    this.#undo.push(undo)
  }

  async cleanUp(): Promise<void> {
    for (const undo of this.#undo.splice(0).reverse()) {
      try {
        await inTime(Promise.resolve(undo()), 5000)
      } catch {
        // It may already be gone. The kit's last check finds leftovers.
      }
    }
  }

  /** Polls until the answer is true. Use it only if no event reports the change. */
  async eventually(question: () => Promise<boolean>, what: string): Promise<void> {
    const end = Date.now() + Math.min(20_000, this.limits.behaviourMs * 0.8)
    while (!(await question())) {
      ok(Date.now() < end, `${what}: this did not happen in time`)
      await delay(25)
    }
  }
}

export async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`It hung: nothing happened for ${ms} ms.`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

import { randomId } from '../shared/ids.ts'
import type { CreateSandboxOpts, ProcessHandle, RunCommandOptions, SpawnOptions } from '../spec/index.ts'
import { ok } from './assert.ts'
import type { Command, CommandKit } from './command-kit.ts'
import type { Session } from './session.ts'
import type { AnyProvider, AnySandbox, Limits } from './types.ts'

/**
 * What one run of a behaviour works with. Everything made through it is taken away afterwards, also when the
 * behaviour fails or hangs.
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

  /** The group's shared sandbox, running. For behaviours that leave its life alone. */
  sandbox(): Promise<AnySandbox> {
    return this.#session.shared(this.#group)
  }

  /** A sandbox of this behaviour's own. */
  async create(options: CreateSandboxOpts = {}): Promise<AnySandbox> {
    return this.adopt(await this.provider.create(this.marked(options)))
  }

  /** The options with the kit's label, by which what is left over is found. */
  marked<T extends CreateSandboxOpts>(options: T): T {
    if (!this.provider.createOptions.has('labels')) return options
    return { ...options, labels: { ...this.#session.label, ...options.labels } }
  }

  /** To be destroyed afterwards, however the behaviour came by it. */
  adopt(sandbox: AnySandbox): AnySandbox {
    this.later(() => this.provider.destroy(sandbox.sandboxId))
    return sandbox
  }

  run(
    sandbox: Pick<AnySandbox, 'runCommand'>,
    command: Command,
    options: Omit<RunCommandOptions, 'cmd' | 'args'> = {},
  ) {
    return sandbox.runCommand({ ...command, ...options })
  }

  /** Starts a program; it is killed afterwards if it still runs. */
  async spawn(
    sandbox: Pick<AnySandbox, 'spawn'>,
    command: Command,
    options: Omit<SpawnOptions, 'cmd' | 'args'> = {},
  ): Promise<ProcessHandle> {
    const process = await sandbox.spawn({ ...command, ...options })
    this.later(() => process.kill('SIGKILL'))
    return process
  }

  /** A new folder of this behaviour's own: its path relative to the workdir. */
  async folder(sandbox: Pick<AnySandbox, 'files'>): Promise<string> {
    const path = `kit-${randomId(8)}`
    await sandbox.files.mkdir(path)
    return path
  }

  /** A name that nobody else uses. */
  unique(prefix = 'kit'): string {
    return `${prefix}-${randomId(10)}`
  }

  /** The provider as another process would open it; undefined where the kit was told why there is none. */
  async reopened(): Promise<AnyProvider | undefined> {
    return this.#session.reopened()
  }

  /** What an observer outside sees left of a sandbox; undefined where there is none. */
  async leftovers(sandboxId: string): Promise<readonly string[] | undefined> {
    return this.#session.leftovers(sandboxId)
  }

  /** Run afterwards, last one first. Failures of clean-up do not hide the behaviour's own. */
  later(undo: () => unknown): void {
    this.#undo.push(undo)
  }

  async cleanUp(): Promise<void> {
    for (const undo of this.#undo.splice(0).reverse()) {
      try {
        await inTime(Promise.resolve(undo()), 5000)
      } catch {
        // What it made may be gone already. The kit's last check finds what is not.
      }
    }
  }

  /** Asks again until the answer is yes: only where nothing tells of the change. */
  async eventually(question: () => Promise<boolean>, what: string): Promise<void> {
    const end = Date.now() + Math.min(20_000, this.limits.behaviourMs * 0.8)
    while (!(await question())) {
      ok(Date.now() < end, `${what}: this did not come about in time`)
      await delay(25)
    }
  }
}

/** The work, or an error when it takes longer than this. */
export async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`It hung: nothing came for ${ms} ms.`)), ms)
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

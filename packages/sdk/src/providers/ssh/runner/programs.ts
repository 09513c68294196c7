import type { Checked, ProcessDriver, ProcessSpec } from '../../../core/driver.ts'
import { SandboxError } from '../../../errors.ts'
import type { Launch } from '../../../shared/guest/launch.ts'
import { randomId } from '../../../shared/ids.ts'
import type {
  CallOptions,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessInfo,
  SandboxShell,
  SandboxTerminal,
} from '../../../spec/index.ts'
import type { Agent } from '../guest/agent.ts'
import { Bridge } from './bridge.ts'
import { loadRunnerClient, type RunnerClient, type RunnerPrograms } from './runner-client.ts'

/** Connections to the runners on a host, one for each sandbox in use. They hold no state of their own. */
export class RunnerLinks {
  readonly #agent: Agent
  readonly #links = new Map<string, Link>()

  constructor(agent: Agent) {
    this.#agent = agent
  }

  of(sandboxId: string, incarnation: string): Link {
    const key = `${sandboxId}/${incarnation}`
    const known = this.#links.get(key)
    if (known) return known
    const link: Link = new Link(this.#agent, sandboxId, incarnation, () => {
      if (this.#links.get(key) === link) this.#links.delete(key)
    })
    this.#links.set(key, link)
    return link
  }

  /** Closes the connection of a sandbox, or all. Programs continue. */
  async close(sandboxId = ''): Promise<void> {
    const links = [...this.#links].filter(([key]) => key.startsWith(sandboxId))
    await Promise.all(links.map(([, link]) => link.close()))
  }
}

class Link {
  readonly writers = new Map<string, unknown>()
  readonly #connect: () => Promise<RunnerClient>
  readonly #forget: () => void
  #client: Promise<RunnerClient> | undefined

  constructor(agent: Agent, sandboxId: string, incarnation: string, forget: () => void) {
    this.#forget = forget
    this.#connect = async () => {
      const { RunnerClient } = await loadRunnerClient()
      const stream = await agent.open('bridge', [sandboxId, incarnation], { sandboxId, what: sandboxId })
      if ((await stream.line()) !== 'ready') throw await stream.problem()
      return RunnerClient.connect(new Bridge(stream))
    }
  }

  client(): Promise<RunnerClient> {
    this.#client ??= this.#connect().then(
      (client) => {
        void client.connection.closed.then(() => this.#over())
        return client
      },
      (error) => {
        this.#over()
        throw error
      },
    )
    return this.#client
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined)
    this.#over()
    client?.close()
  }

  #over(): void {
    this.#client = undefined
    this.writers.clear()
    this.#forget()
  }
}

export interface ProgramsPlace {
  check(): Promise<void>
  /** The working directory (a real path) of a program, and its environment with its mark. */
  launch(
    id: string,
    cwd: string | undefined,
    env: Readonly<Record<string, string>>,
  ): Launch & { mark: string }
  /** Throws `path_outside` when the path leaves the working directory. */
  confine(cwd: string): Promise<void>
}

export class SshPrograms {
  readonly #link: () => Link
  readonly #place: ProgramsPlace
  #programs: Promise<RunnerPrograms<RunnerClient>> | undefined

  constructor(links: RunnerLinks, sandboxId: string, incarnation: string, place: ProgramsPlace) {
    this.#link = () => links.of(sandboxId, incarnation)
    this.#place = place
  }

  async spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver> {
    const execId = spec.execId ?? randomId()
    const where = await this.#where(execId, spec.cwd, spec.env)
    const programs = await this.#runnerPrograms()
    return programs.spawn(await this.#link().client(), spec, { ...where, execId }, call)
  }

  async getProcess(execId: string): Promise<ProcessDriver> {
    return (await this.#runnerPrograms()).getProcess(execId)
  }

  async listProcesses(): Promise<ProcessInfo[]> {
    return (await this.#runnerPrograms()).listProcesses()
  }

  async openShell(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell> {
    const name = options.name ?? `shell-${randomId(8)}`
    const where = await this.#where(`s-${randomId(8)}`, options.cwd, options.env ?? {})
    const programs = await this.#runnerPrograms()
    return programs.openShell(name, { ...where, login: options.login ?? false }, call)
  }

  async openTerminal(
    options: Checked<OpenTerminalOptions> & { cols: number; rows: number },
    call: CallOptions,
  ): Promise<SandboxTerminal> {
    const { cmd, args = [], cols, rows, terminalId = `terminal-${randomId(8)}` } = options
    const argv = cmd === undefined ? ['sh', '-c', 'exec "$SHELL"'] : [cmd, ...args]
    const where = await this.#where(terminalId, options.cwd, options.env ?? {})
    const programs = await this.#runnerPrograms()
    return programs.openTerminal(terminalId, argv, { ...where, cols, rows }, call)
  }

  #runnerPrograms(): Promise<RunnerPrograms<RunnerClient>> {
    this.#programs ??= loadRunnerClient().then(
      ({ RunnerPrograms }) => new RunnerPrograms(this.#host()),
      (error) => {
        this.#programs = undefined
        throw error
      },
    )
    return this.#programs
  }

  #host() {
    const link = this.#link
    return {
      // As with the agent's script, programs outlive the connection.
      bound: false,
      client: () => link().client(),
      get writers() {
        return link().writers
      },
      oomKills: async () => undefined,
      explain: (error: unknown) => this.#explain(error),
    }
  }

  async #where(id: string, given: string | undefined, added: Readonly<Record<string, string>>) {
    const { cwd, env, mark } = this.#place.launch(id, given, added)
    if (given !== undefined) await this.#place.confine(cwd)
    // The mark finds leftover programs after a runner was killed.
    return { cwd, env: { PWD: cwd, ...env, SANDKASTEN_PROCESS: mark } }
  }

  /** Why a connection ended: the host's connection was lost, or the sandbox was stopped. */
  async #explain(error: unknown): Promise<unknown> {
    if (!SandboxError.is(error, 'connection_lost', 'unavailable')) return error
    if (SandboxError.is(error.cause, 'connection_lost')) return error.cause
    return this.#place.check().then(
      () => error,
      (why) => (SandboxError.is(why, 'not_running', 'interrupted', 'not_found') ? why : error),
    )
  }
}

import type { CallOptions, ProcessInfo, SandboxShell, SandboxTerminal } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import type { ProcessDriver, ProcessSpec } from '@sandkasten/sdk/provider'
import type { RunnerClient } from '../index.ts'
import { DrivenProcess, type ProcessHost, startProcess, told, withStdin } from './process.ts'
import { DrivenShell } from './shell.ts'
import { DrivenTerminal } from './terminal.ts'

/** The complete working directory and environment of a program. */
export interface Place {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

export class RunnerPrograms {
  readonly #host: ProcessHost

  constructor(host: ProcessHost) {
    this.#host = host
  }

  /** Uses a connection that the caller has just opened. */
  spawn(
    client: RunnerClient,
    spec: ProcessSpec,
    place: Place & { execId: string; oomBefore?: number },
    call: CallOptions,
  ): Promise<ProcessDriver> {
    return told(this.#host, startProcess(this.#host, client, spec, place, call))
  }

  async getProcess(execId: string): Promise<ProcessDriver> {
    const task = (await this.#processes()).find(({ id }) => id === execId)
    if (task)
      return new DrivenProcess(this.#host, {
        execId,
        pid: task.pid,
      })
    throw new SandboxError('not_found', `The process ${execId} does not exist in this sandbox.`, {
      hint: {
        sdk: 'See listProcesses().',
        http: 'See GET /v1/sessions/{id}/execs.',
        cli: 'See sandkasten commands list.',
      },
    })
  }

  async listProcesses(): Promise<ProcessInfo[]> {
    const processes = await this.#processes()
    // One list for all: a process may be forgotten before it could be asked for again.
    return Promise.all(
      processes.map(async (task) => ({
        execId: task.id,
        ...(await new DrivenProcess(this.#host, { execId: task.id }).statusOf(task)),
      })),
    )
  }

  async openShell(
    name: string,
    { cwd, env, login }: Place & { login: boolean },
    { signal }: CallOptions,
  ): Promise<SandboxShell> {
    const reopen = (client: RunnerClient) => client.openShell({ id: name, cwd, env, login, signal })
    const client = await this.#host.client()
    await told(this.#host, reopen(client))
    const open = (await told(this.#host, client.listShells())).find(({ id }) => id === name)
    const at = open?.cwd ? Buffer.from(open.cwd).toString('utf8') : cwd
    return new DrivenShell({ name, cwd: at, host: this.#host, reopen })
  }

  async openTerminal(
    terminalId: string,
    argv: readonly string[],
    { cwd, env, cols, rows }: Place & { cols: number; rows: number },
    { signal }: CallOptions,
  ): Promise<SandboxTerminal> {
    const client = await this.#host.client()
    const start = client.start({
      id: terminalId,
      argv,
      cwd,
      env: { TERM: 'xterm-256color', ...env },
      tty: true,
      stdin: true,
      cols,
      rows,
      lossy: true,
      signal,
    })
    return new DrivenTerminal(withStdin(this.#host, await told(this.#host, start)), () => this.#host.client())
  }

  async #processes() {
    const tasks = await told(this.#host, (await this.#host.client()).list())
    return tasks.filter(({ kind }) => kind === 'process')
  }
}

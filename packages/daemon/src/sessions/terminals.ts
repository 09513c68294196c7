import { type OpenTerminalOptions, SandboxError, type SandboxTerminal } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { Caller } from '../keys/index.ts'
import type { ExecRow } from '../store/index.ts'
import type { Context } from './context.ts'
import { checkArgv, checkCount, checkEnv } from './limits/request-limits.ts'
import type { Use, Used, UseOptions } from './use.ts'

/** Terminals of sessions. Each has a row, so that a repeated open finds it and an unknown id opens nothing. */
export class Terminals {
  readonly #context: Context
  readonly #use: Use

  constructor(context: Context, use: Use) {
    this.#context = context
    this.#use = use
  }

  async open(
    caller: Caller,
    id: string,
    options: Omit<OpenTerminalOptions, 'signal' | 'env'> & { env?: Readonly<Record<string, string>> },
    use: UseOptions = {},
  ): Promise<ExecRow> {
    checkArgv(options.cmd, options.args)
    checkEnv(options.env)
    const { store, metrics } = this.#context
    return this.#use.use(
      caller,
      id,
      async (used) => {
        const terminalId = options.terminalId ?? `terminal-${randomId()}`
        const row = rowOf(used, terminalId, options)
        checkCount(await store.execs.countRunning(id, 'terminal'), 'terminals')
        // A repeated request with the same id finds the first terminal.
        if (!(await store.execs.insert(row))) return this.find(caller, id, terminalId)
        try {
          await used.sandbox.openTerminal({ ...options, terminalId })
          used.open.terminals.add(terminalId)
          metrics.count('sandkasten_commands_total', { kind: 'terminal' })
          return row
        } catch (error) {
          await store.execs.delete(id, terminalId)
          throw error
        }
      },
      use,
    )
  }

  async find(caller: Caller, id: string, terminalId: string): Promise<ExecRow> {
    await this.#use.find(caller, id)
    const row = await this.#context.store.execs.get(id, terminalId)
    if (row?.kind === 'terminal') return row
    throw new SandboxError('not_found', `The session has no terminal ${terminalId}.`, {
      hint: {
        sdk: 'Open one with openTerminal().',
        http: 'Open one with POST /v1/sessions/{id}/terminals.',
        cli: 'Open one with sandkasten shell.',
      },
    })
  }

  async list(caller: Caller, id: string): Promise<Array<Omit<ExecRow, 'events'>>> {
    await this.#use.find(caller, id)
    return this.#context.store.execs.list(id, { limit: 100, maxBytes: 1_048_576, kind: 'terminal' })
  }

  /** Attaches to the terminal. Throws `gone` if it has ended. */
  attach<T>(
    caller: Caller,
    id: string,
    terminalId: string,
    work: (terminal: SandboxTerminal) => Promise<T>,
    use: UseOptions = {},
  ): Promise<T> {
    return this.#use.use(
      caller,
      id,
      async (used) => {
        const row = await this.find(caller, id, terminalId)
        // Emulated terminals end with the process that opened them. Their id would open a new terminal.
        const survives =
          used.sandbox.capabilities.terminal === 'native' || used.open.terminals.has(terminalId)
        if (row.incarnation !== used.session.incarnation || !survives)
          throw new SandboxError('gone', `The terminal ${terminalId} has ended.`, { hint: 'Open a new one.' })
        const command = JSON.parse(row.command) as Pick<OpenTerminalOptions, 'cmd' | 'args'>
        const terminal = await used.sandbox.openTerminal({ ...command, terminalId })
        used.open.terminals.add(terminalId)
        return work(terminal)
      },
      use,
    )
  }

  async ended(id: string, terminalId: string, exit: object): Promise<void> {
    await this.#context.store.execs.update(id, terminalId, {
      status: 'done',
      ended_at: Date.now(),
      result: JSON.stringify(exit),
    })
  }

  /** Input is activity; an open connection is not. */
  touch(id: string): void {
    this.#context.live.touch(id)
  }
}

function rowOf({ session }: Used, terminalId: string, options: OpenTerminalOptions): ExecRow {
  const { cmd, args } = options
  return {
    session_id: session.id,
    project_id: session.project_id,
    exec_id: terminalId,
    kind: 'terminal',
    status: 'running',
    detached: 1,
    incarnation: session.incarnation,
    shell: null,
    command: JSON.stringify(cmd === undefined ? {} : { cmd, args }),
    fingerprint: '',
    created_at: Date.now(),
    ended_at: null,
    result: null,
    events: null,
    bytes: 0,
  }
}

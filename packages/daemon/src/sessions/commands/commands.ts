import { createHash } from 'node:crypto'
import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import { nextTurn, stepChars } from '../../large-texts.ts'
import type { ExecRow, ListedExec } from '../../store/index.ts'
import type { Context, Session } from '../context.ts'
import { checkArgv, checkEnv } from '../limits/request-limits.ts'
import type { StoreBudget } from '../limits/store-budget.ts'
import type { Use, Used, UseOptions } from '../use.ts'
import { isPassing } from './follow.ts'
import { restoredEvents } from './kept-events.ts'
import { lossOf, startRun, trackRun } from './run-command.ts'
import { trackShell } from './shell-command.ts'
import { enterShell } from './shell-queue.ts'
import { shellOf } from './shells.ts'
import type {
  Command,
  CommandRequest,
  ExecResult,
  LiveCommand,
  StoredCommand,
  TrackOptions,
} from './types.ts'

const doneKept = 200

/** Opens the session of a command. */
type Taken = () => Promise<Used & { release: () => void }>

/**
 * Commands with an id. The row is written before the command starts, and the provider uses the same id. A follower
 * reads each command to its end and writes the result. So a repeated request finds the first command, in this process
 * or in the next one, and a client can resume after the last event that it received.
 */
export class Commands {
  readonly #context: Context
  readonly #use: Use
  readonly #budget: StoreBudget
  readonly #tracked = new Map<string, LiveCommand>()
  readonly #starting = new Map<string, Promise<Command>>()
  readonly #finding = new Map<string, Promise<boolean>>()
  /** Stops following commands when this process ends. The commands keep running. */
  readonly #closing = new AbortController()

  constructor(context: Context, use: Use, budget: StoreBudget) {
    this.#context = context
    this.#budget = budget
    this.#use = use
  }

  /** Starts a command, or finds the command with this id. */
  async start(
    caller: Caller,
    id: string,
    execId: string,
    request: CommandRequest,
    options: UseOptions = {},
  ): Promise<Command> {
    if (request.kind === 'run') {
      checkArgv(request.cmd, request.args)
      checkEnv(request.env)
    } else checkArgv(request.command)
    const key = `${id}/${execId}`
    // Concurrent requests with one id take turns, so the second finds the command of the first.
    for (let other = this.#starting.get(key); other; other = this.#starting.get(key))
      await other.catch(() => {})
    const starting = this.#start(caller, id, execId, request, options)
    this.#starting.set(key, starting)
    try {
      return await starting
    } finally {
      this.#starting.delete(key)
    }
  }

  async find(caller: Caller, id: string, execId: string): Promise<Command> {
    await this.#use.find(caller, id)
    const key = `${id}/${execId}`
    const tracked = this.#tracked.get(key)
    if (tracked) return tracked
    const row = await this.#context.store.execs.get(id, execId)
    if (row && row.kind !== 'terminal') {
      if (row.status !== 'running' || !(await this.#stillRuns(caller, row))) return this.#stored(caller, row)
      // The sandbox could not be reached during recovery; try again.
      await this.#found(row, () => this.#use.take(caller, id))
      return (
        this.#tracked.get(key) ??
        this.#stored(caller, (await this.#context.store.execs.get(id, execId)) ?? row)
      )
    }
    throw new SandboxError('not_found', `The session has no command ${execId}.`, {
      hint: {
        sdk: 'See listProcesses().',
        http: 'Use the exec_id that you gave the command; see GET /v1/sessions/{id}/execs.',
        cli: 'See sandkasten commands list.',
      },
    })
  }

  async list(caller: Caller, id: string, limit: number): Promise<ListedExec[]> {
    await this.#use.find(caller, id)
    const maxBytes = this.#context.config.max_result_mb * 1_048_576
    return this.#context.store.execs.list(id, { limit, maxBytes })
  }

  #stored(caller: Caller, row: ExecRow): StoredCommand {
    return { state: 'stored', row, output: (after, signal) => this.#replay(caller, row, after, signal) }
  }

  /** Output of a command that has ended: from its sandbox while the sandbox has it, then from the store. */
  async *#replay(
    caller: Caller,
    row: ExecRow,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<ProcessEvent> {
    if (row.kind === 'run' && (await this.#stillRuns(caller, row))) {
      const used = await this.#use.take(caller, row.session_id)
      try {
        const process = await used.sandbox.getProcess(row.exec_id)
        yield* process.output({ after, signal })
        return
      } catch (error) {
        if (!SandboxError.is(error, 'not_found', 'not_running', 'interrupted')) throw error
      } finally {
        used.release()
      }
    }
    const events = restoredEvents(row.events)
    const oldest = events[0]?.seq
    if (oldest === undefined || after + 1 < oldest)
      throw new SandboxError('gone', `Output after event ${after} was dropped.`, {
        details: { after, oldest },
        hint: 'Get the result, which has the beginning and the end of the output.',
      })
    for (const event of events) if (event.seq > after) yield event
  }

  /** Whether a foreground command runs, so that the session is not idle. */
  isWorking(id: string): boolean {
    for (const { row } of this.#tracked.values()) if (row.session_id === id && row.detached === 0) return true
    return false
  }

  /**
   * Follows commands that an earlier process started. Runs after a restart, and for paused sessions after their resume.
   */
  async recover(session: Session, used: Taken): Promise<void> {
    if (session.status === 'paused') return
    const { store } = this.#context
    for (const row of await store.execs.running(session.id)) {
      if (row.kind === 'terminal' || this.#tracked.has(`${row.session_id}/${row.exec_id}`)) continue
      if (row.incarnation !== session.incarnation || session.status !== 'running') {
        await this.#save(row, {
          status: 'lost',
          ended_at: Date.now(),
          result: JSON.stringify({ lost: 'interrupted' }),
        })
        continue
      }
      if (!(await this.#found(row, used))) void this.#findLater(row, used)
    }
  }

  close(): void {
    this.#closing.abort()
  }

  async #start(
    caller: Caller,
    id: string,
    execId: string,
    request: CommandRequest,
    options: UseOptions,
  ): Promise<Command> {
    const { store, metrics } = this.#context
    const used = await this.#use.take(caller, id, options)
    try {
      const row = rowOf(used.session, execId, request)
      if (!(await store.execs.insert(row))) {
        used.release()
        return await this.#repeat(caller, row)
      }
      metrics.count('sandkasten_commands_total', { kind: row.kind })
      try {
        return await this.#launch(used, row, request)
      } catch (error) {
        await store.execs.delete(id, execId).catch(() => {})
        throw error
      }
    } catch (error) {
      used.release()
      throw error
    }
  }

  async #launch(
    used: Used & { release: () => void },
    row: ExecRow,
    request: CommandRequest,
  ): Promise<LiveCommand> {
    const { live } = this.#context
    if (request.kind === 'run') {
      const started = await startRun(used.sandbox, row, request)
      const { maxOutputBytes } = request
      return this.#keep(
        used,
        this.#track(row, (options) => trackRun(used.sandbox, row, { ...options, started, maxOutputBytes })),
      )
    }
    const shell = await shellOf(used.open, request.shell)
    const onEnd = (result: { cwd: string }) => live.touch(row.session_id, result.cwd)
    const tracked = this.#track(row, (options) => trackShell(shell, row, { ...options, request, onEnd }))
    void tracked.done.then(enterShell(used.open, request.shell, row.exec_id, request.command))
    return this.#keep(used, tracked)
  }

  /** Follows a command again, coalescing concurrent calls. False when its sandbox cannot be reached now. */
  async #found(row: ExecRow, used: Taken): Promise<boolean> {
    const key = `${row.session_id}/${row.exec_id}`
    const other = this.#finding.get(key)
    if (other) return other
    const finding = this.#find(row, used)
    this.#finding.set(key, finding)
    try {
      return await finding
    } finally {
      this.#finding.delete(key)
    }
  }

  async #find(row: ExecRow, used: Taken): Promise<boolean> {
    if (this.#tracked.has(`${row.session_id}/${row.exec_id}`)) return true
    try {
      await this.#follow(row, await used())
      return true
    } catch (error) {
      const { store, log } = this.#context
      if (isPassing(error) || SandboxError.is(error, 'not_running')) {
        log.warn(
          { session: row.session_id, exec: row.exec_id, err: error },
          'cannot reach a command after a restart; it will be retried',
        )
        return false
      }
      // The row exists but the command never started. No client learned of it, so a retry may start it.
      if (SandboxError.is(error, 'not_found')) await store.execs.delete(row.session_id, row.exec_id)
      else await this.#save(row, { status: 'lost', ended_at: Date.now(), result: lossOf(error) })
      return true
    }
  }

  /** Retries, because a sandbox on a busy machine may respond later. */
  async #findLater(row: ExecRow, used: Taken): Promise<void> {
    for (let waitMs = 500; ; waitMs = Math.min(waitMs * 2, 10_000)) {
      await new Promise((resolve) => setTimeout(resolve, waitMs).unref())
      if (this.#closing.signal.aborted) return
      const session = await this.#context.store.sessions.get(row.session_id).catch(() => undefined)
      if (session && (session.status !== 'running' || session.incarnation !== row.incarnation)) return
      if (session && (await this.#found(row, used).catch(() => false))) return
    }
  }

  async #follow(row: ExecRow, used: Used & { release: () => void }): Promise<void> {
    const { live } = this.#context
    try {
      if (row.kind === 'run') {
        const started = await used.sandbox.getProcess(row.exec_id)
        const tracked = this.#track(row, (options) => trackRun(used.sandbox, row, { ...options, started }))
        this.#keep(used, tracked)
        return
      }
      const shell = await shellOf(used.open, row.shell!)
      if (!shell.attach) throw new SandboxError('interrupted', 'The shell ended with the daemon.')
      const onEnd = (result: { cwd: string }) => live.touch(row.session_id, result.cwd)
      const tracked = this.#track(row, (options) => trackShell(shell, row, { ...options, onEnd }))
      if (!(await tracked.found)) throw new SandboxError('not_found', 'The command was never started.')
      void tracked.done.then(enterShell(used.open, row.shell!, row.exec_id, String(JSON.parse(row.command))))
      this.#keep(used, tracked)
    } catch (error) {
      used.release()
      throw error
    }
  }

  /** Follows the command with an account for its output, which is released when the command has ended. */
  #track<T extends LiveCommand>(row: ExecRow, track: (options: TrackOptions) => T): T {
    const account = this.#context.memory.open(row.project_id)
    try {
      const tracked = track({
        signal: this.#closing.signal,
        account,
        maxResultBytes: this.#context.config.max_result_mb * 1_048_576,
        save: (changes, defect) => this.#save(row, changes, defect),
      })
      void tracked.done.then(() => account.release())
      return tracked
    } catch (error) {
      account.release()
      throw error
    }
  }

  /** Lists the command while it runs. A command that is not detached holds its session. */
  #keep(used: Used & { release: () => void }, tracked: LiveCommand): LiveCommand {
    const { row } = tracked
    const key = `${row.session_id}/${row.exec_id}`
    this.#tracked.set(key, tracked)
    if (row.detached === 1) used.release()
    void tracked.done.then(() => {
      this.#tracked.delete(key)
      used.release()
      if (!this.#closing.signal.aborted) this.#context.live.touch(row.session_id)
    })
    return tracked
  }

  /** Retries until the result is written, because a database may be away for a while. Never rejects. */
  async #save(row: ExecRow, changes: Partial<ExecRow>, defect?: unknown): Promise<ExecRow> {
    const { store, log, metrics } = this.#context
    const which = { session: row.session_id, exec: row.exec_id }
    const chars = (changes.result?.length ?? 0) + (changes.events?.length ?? 0)
    if (defect !== undefined && !SandboxError.is(defect)) {
      metrics.count('sandkasten_defects_total', { kind: 'command' })
      log.error({ ...which, err: defect }, 'lost the result of a command after an unexpected error')
    }
    for (let waitMs = 50; !this.#closing.signal.aborted; waitMs = Math.min(waitMs * 2, 1000)) {
      try {
        if (chars > stepChars) await nextTurn()
        if (this.#closing.signal.aborted) break
        await store.execs.update(row.session_id, row.exec_id, changes)
        this.#budget.added(row.project_id, chars)
        await store.execs.prune(row.session_id, doneKept)
        break
      } catch (error) {
        if (!SandboxError.is(error, 'unavailable', 'disk_full')) {
          log.error({ ...which, err: error }, 'cannot write the result of a command')
          break
        }
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs).unref())
    }
    return { ...row, ...changes }
  }

  async #repeat(caller: Caller, wanted: ExecRow): Promise<Command> {
    const found = await this.find(caller, wanted.session_id, wanted.exec_id)
    if (found.row.fingerprint === wanted.fingerprint) return found
    throw new SandboxError('conflict', `The id ${wanted.exec_id} was used for a different command.`, {
      hint: 'Use a new id for each command.',
    })
  }

  async #stillRuns(caller: Caller, row: ExecRow): Promise<boolean> {
    const session = await this.#use.find(caller, row.session_id)
    return session.status === 'running' && session.incarnation === row.incarnation
  }
}

/** The result of a finished command. Throws for a lost one. */
export function resultOf(row: ExecRow): ExecResult {
  const result = JSON.parse(row.result ?? '{}')
  if (row.status === 'done') return result
  throw new SandboxError(
    'interrupted',
    `The result of the command ${row.exec_id} is lost: its sandbox or shell ended before it.`,
    {
      details: { exec_id: row.exec_id },
      hint: 'Check what the command did, and run it again with a new id if needed.',
    },
  )
}

function rowOf(session: Session, execId: string, request: CommandRequest): ExecRow {
  const command = request.kind === 'run' ? [request.cmd, ...request.args] : request.command
  return {
    session_id: session.id,
    project_id: session.project_id,
    exec_id: execId,
    kind: request.kind,
    status: 'running',
    detached: request.kind === 'run' && request.detached ? 1 : 0,
    incarnation: session.incarnation,
    shell: request.kind === 'exec' ? request.shell : null,
    command: shownCommand(command),
    fingerprint: fingerprintOf(request),
    created_at: Date.now(),
    ended_at: null,
    result: null,
    events: null,
    bytes: 0,
  }
}

/** The command as it is stored and shown, with long arguments cut. */
function shownCommand(command: string | readonly string[]): string {
  const json = JSON.stringify(command)
  if (json.length <= mostCommandLength) return json
  if (typeof command === 'string') return JSON.stringify(shortened(command, mostCommandLength / 8))
  const shown = command.slice(0, 32).map((part) => shortened(part, 64))
  return JSON.stringify(command.length > 32 ? [...shown, `… ${command.length - 32} more`] : shown)
}

const mostCommandLength = 16_384

function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`
}

function fingerprintOf(request: CommandRequest): string {
  const hash = createHash('sha256').update(request.kind)
  if (request.kind === 'exec') hash.update(JSON.stringify([request.command, request.shell]))
  else {
    const env = Object.entries(request.env ?? {}).sort()
    hash.update(JSON.stringify([request.cmd, request.args, env, request.cwd ?? null]))
    if (request.output === 'merged') hash.update('merged')
    if (request.stdin instanceof Uint8Array) hash.update(request.stdin)
  }
  return hash.digest('hex')
}

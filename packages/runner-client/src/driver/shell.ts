import type { CallOptions, SandboxShell, ShellExecOptions, ShellResult } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { checkCount, checkMs, HeadTail, maybeDone, randomId } from '@sandkasten/sdk/provider'
import type { CommandOptions, RunnerClient, RunnerShell, TaskOutput } from '../index.ts'
import { overdue, overdueMs, within } from './overdue.ts'
import { type ProcessHost, told } from './process.ts'

/** A shell of the runner. Other processes find it by name. */
export class DrivenShell implements SandboxShell {
  readonly name: string
  readonly #host: ProcessHost
  readonly #reopen: (client: RunnerClient) => Promise<RunnerShell>
  #cwd: string
  #closed = false
  #opened: { client: RunnerClient; shell: RunnerShell } | undefined

  constructor(options: {
    name: string
    cwd: string
    host: ProcessHost
    reopen: (client: RunnerClient) => Promise<RunnerShell>
  }) {
    this.name = options.name
    this.#cwd = options.cwd
    this.#host = options.host
    this.#reopen = options.reopen
  }

  get cwd(): string {
    return this.#cwd
  }

  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    if (typeof command !== 'string' || command.includes('\0'))
      throw new SandboxError('invalid_argument', '`command` must be a string without NUL characters.')
    if (this.#closed) throw closed(this.name)
    const timeoutMs = options.timeoutMs === undefined ? undefined : checkMs(options.timeoutMs, 'timeoutMs')
    const client = await this.#host.client()
    const id = options.execId ?? `exec-${randomId()}`
    // Without a caller's id, the command ends with the connection, because it could not be found again.
    const bound = this.#host.bound && options.execId === undefined
    try {
      const request = { id, bound, timeoutMs, signal: options.signal }
      const { shell, task } = await told(this.#host, this.#start(client, command, request))
      const limit = timeoutMs === undefined ? undefined : { timeoutMs, shellId: shell.id }
      const result = await told(this.#host, this.#follow(client, id, task, options, limit))
      // The runner drops bound commands by itself. It need not remember other ids that no caller knows.
      if (options.execId === undefined && !bound) void client.forget(id).catch(() => {})
      return result
    } catch (error) {
      throw options.execId === undefined ? maybeDone(error) : error
    }
  }

  /** One request, unless the shell is new to this connection or was closed meanwhile. */
  async #start(
    client: RunnerClient,
    command: string,
    options: CommandOptions,
  ): Promise<{ shell: RunnerShell; task: TaskOutput }> {
    const known = this.#opened?.client === client ? this.#opened.shell : undefined
    if (known) {
      try {
        return { shell: known, task: await known.start(command, options) }
      } catch (error) {
        if (!SandboxError.is(error, 'not_found')) throw error
      }
    }
    const shell = await this.#reopen(client)
    this.#opened = { client, shell }
    return { shell, task: await shell.start(command, options) }
  }

  async attach(execId: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    const client = await this.#host.client()
    const task = await told(this.#host, client.attach(execId, { signal: options.signal }))
    options.onFound?.()
    return told(this.#host, this.#follow(client, execId, task, options))
  }

  async #follow(
    client: RunnerClient,
    id: string,
    task: TaskOutput,
    { signal, onOutput, maxOutputBytes, outputBudget }: ShellExecOptions,
    limit?: { timeoutMs: number; shellId: string },
  ): Promise<ShellResult> {
    const max = checkCount(maxOutputBytes ?? 4 * 1024 * 1024, 'maxOutputBytes', 2 ** 30)
    const kept = new HeadTail(max, outputBudget)
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    let missed = false
    const abort = () => void client.signal(id, 'KILL').catch(() => {})
    signal?.addEventListener('abort', abort, { once: true })
    try {
      for (;;) {
        const event = await inTime(client, id, task.next(), limit)
        if (event === undefined) break
        if (event.type === 'gone') missed = true
        if (event.type !== 'output') continue
        kept.push(event.data)
        await outputBudget?.pace?.(event.data.byteLength)
        await tell(onOutput, decoder.decode(event.data, { stream: true }))
      }
      await tell(onOutput, decoder.decode())
      const exit = await inTime(client, id, task.exit, limit)
      if (signal?.aborted)
        throw new SandboxError('aborted', 'The command was cancelled by its AbortSignal.', {
          cause: signal.reason,
        })
      if (exit.cwd) this.#cwd = Buffer.from(exit.cwd).toString('utf8')
      return {
        exitCode: exit.exitCode ?? 137,
        output: kept.text(),
        cwd: this.#cwd,
        timedOut: exit.timedOut,
        truncated: missed || kept.truncated,
        durationMs: exit.durationMs,
        shellRestarted: exit.restarted ?? false,
        warning: exit.loginSkipped === undefined ? undefined : withoutProfile(exit.loginSkipped),
      }
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  async close({ signal }: CallOptions = {}): Promise<boolean> {
    if (this.#closed) return false
    this.#closed = true
    const client = await this.#host.client()
    await told(
      this.#host,
      this.#reopen(client).then((shell) => shell.close({ signal })),
    )
    return true
  }
}

/**
 * Waits for an event of a command. The command's timeout starts when the shell reaches it, which only the runner knows. So
 * after a long silence the runner is asked. The wait ends if the runner does not respond, or if the command has been running
 * for longer than its timeout.
 */
async function inTime<T>(
  client: RunnerClient,
  id: string,
  wait: Promise<T>,
  limit: { timeoutMs: number; shellId: string } | undefined,
): Promise<T> {
  if (limit === undefined) return wait
  const { timeoutMs, shellId } = limit
  for (let isCurrent = false; ; ) {
    const silence = new Error(`no event in ${timeoutMs + overdueMs} ms`)
    try {
      return await within(wait, timeoutMs + overdueMs, () => silence)
    } catch (error) {
      if (error !== silence) throw error
    }
    const shells = await client.listShells({ answerTimeoutMs: overdueMs }).catch((error) => {
      throw overdue(timeoutMs, error)
    })
    const current = shells.find((shell) => shell.id === shellId)?.running === id
    if (isCurrent && current) throw overdue(timeoutMs)
    isCurrent = current
  }
}

function tell(listener: ShellExecOptions['onOutput'], text: string): unknown {
  return text === '' ? undefined : listener?.(text)
}

const reasons: Readonly<Record<string, string>> = {
  timeout: 'it took too long',
  exited: 'it ended the shell',
  replaced: 'it replaced the shell, or locked a file that the shell needs',
}

/** The reason comes from inside the sandbox: only known values are shown. */
function withoutProfile(why: string): string {
  const reason = reasons[why] ?? 'the shell failed with it'
  return `The profile of the sandbox’s user was not loaded: ${reason}. Check ~/.bash_profile, ~/.profile and ~/.bashrc.`
}

function closed(name: string): SandboxError {
  return new SandboxError('not_running', `The shell “${name}” is closed.`, {
    hint: {
      sdk: 'Open a new one with openShell().',
      http: 'Open a new one with POST /v1/sessions/{id}/shells.',
      cli: 'Open a new one: sandkasten shells open.',
    },
  })
}

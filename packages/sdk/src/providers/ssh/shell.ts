import { checkCount, checkMs, invalid } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { abortedError, onAbort, throwIfAborted } from '../../shared/calls/abort.ts'
import { keyOf, randomId } from '../../shared/ids.ts'
import { HeadTail } from '../../shared/output/collect.ts'
import type { CallOptions, SandboxShell, ShellExecOptions, ShellResult } from '../../spec/index.ts'
import type { AgentStream } from './guest/agent.ts'
import { type FollowedExit, follow, type ProcessPlace } from './process.ts'

/** A bash on the host. It and its commands outlive this process; another process finds both by name. */
export class SshShell implements SandboxShell {
  readonly name: string
  readonly #place: ProcessPlace
  readonly #key: string
  #cwd: string
  #closed = false
  #queue: Promise<unknown> = Promise.resolve()

  constructor(place: ProcessPlace, shell: { name: string; key: string; cwd: string }) {
    this.#place = place
    this.name = shell.name
    this.#key = shell.key
    this.#cwd = shell.cwd
  }

  get cwd(): string {
    return this.#cwd
  }

  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    if (typeof command !== 'string') throw invalid('`command` must be a string.')
    if (command.includes('\0')) throw invalid('`command` contains a NUL character.')
    const timeout = options.timeoutMs === undefined ? '-' : seconds(checkMs(options.timeoutMs, 'timeoutMs'))
    const id = options.execId === undefined ? `c-${randomId()}` : await commandKey(options.execId)
    const turn = this.#queue.then(async () => {
      throwIfAborted(options.signal, 'The command')
      if (this.#closed) throw closed(this.name)
      const { agent, sandboxId, incarnation } = this.#place
      const words = [sandboxId, incarnation, this.#key, id, RING, timeout]
      const stream = await agent.open('exec', words, { input: [command], sandboxId, what: this.name })
      return this.#follow(id, stream, 'started', options)
    })
    this.#queue = turn.catch(() => {})
    return turn
  }

  async attach(
    execId: string,
    options: Omit<ShellExecOptions, 'execId' | 'timeoutMs'> = {},
  ): Promise<ShellResult> {
    const { agent, sandboxId, incarnation } = this.#place
    const id = await commandKey(execId)
    const stream = await agent.open('follow', [sandboxId, incarnation, id, 0], { sandboxId, what: execId })
    return this.#follow(id, stream, 'found', options)
  }

  async close({ signal }: CallOptions = {}): Promise<boolean> {
    if (this.#closed) return false
    this.#closed = true
    const { agent, sandboxId, incarnation } = this.#place
    return (
      (await agent.call('shellclose', [sandboxId, incarnation, this.#key], { sandboxId, signal })).trim() ===
      '1'
    )
  }

  async #follow(
    id: string,
    stream: AgentStream,
    word: string,
    { signal, onOutput, onFound, maxOutputBytes, outputBudget }: ShellExecOptions,
  ): Promise<ShellResult> {
    const max = checkCount(maxOutputBytes ?? 4 * 1024 * 1024, 'maxOutputBytes', 2 ** 30)
    const kept = new HeadTail(max, outputBudget)
    if ((await stream.line()) !== word) throw await stream.problem()
    onFound?.()
    const { agent, sandboxId, incarnation } = this.#place
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    const stop = () => agent.call('kill', [sandboxId, incarnation, id, 'KILL'], { sandboxId }).catch(() => {})
    const forget = onAbort(signal, () => void stop())
    let exit: FollowedExit | undefined
    let missed = false
    const missing = () => {
      missed = true
    }
    try {
      for await (const event of whatIsLeft(this.#place, id, stream, missing)) {
        if (event.type === 'exit') exit = event
        else {
          kept.push(event.data)
          await tell(onOutput, decoder.decode(event.data, { stream: true }))
        }
      }
      await tell(onOutput, decoder.decode())
    } finally {
      forget()
    }
    if (signal?.aborted) throw abortedError(signal, 'The command')
    if (exit!.cwd !== undefined) this.#cwd = exit!.cwd
    return {
      exitCode: exit!.exitCode,
      output: kept.text(),
      cwd: this.#cwd,
      timedOut: exit!.timedOut,
      truncated: missed || kept.truncated,
      durationMs: exit!.durationMs,
      shellRestarted: exit!.restarted ?? false,
    }
  }
}

/** All events. If the host dropped some for lack of space, continues after them. */
async function* whatIsLeft(
  place: ProcessPlace,
  id: string,
  first: AgentStream,
  missing: () => void,
): ReturnType<typeof follow> {
  const { agent, sandboxId, incarnation } = place
  let [stream, after] = [first, 0]
  for (;;) {
    try {
      return yield* follow(place, stream, after)
    } catch (error) {
      const oldest = SandboxError.is(error, 'gone') ? Number(error.details.oldest) : 0
      if (oldest - 1 <= after) throw error
      missing()
      after = oldest - 1
    }
    stream = await agent.open('follow', [sandboxId, incarnation, id, after], { sandboxId })
    if ((await stream.line()) !== 'found') throw await stream.problem()
  }
}

/** How many bytes of a shell command's output are kept for later readers. */
const RING = 8 * 1024 * 1024

/** Formats a duration for sleep(1). */
export function seconds(ms: number): string {
  return (Math.max(1, Math.round(ms)) / 1000).toFixed(3)
}

async function commandKey(execId: string): Promise<string> {
  return `k-${await keyOf(execId)}`
}

function tell(listener: ShellExecOptions['onOutput'], text: string): unknown {
  return text === '' ? undefined : listener?.(text)
}

function closed(name: string): SandboxError {
  return new SandboxError('not_running', `The shell “${name}” is closed.`, {
    provider: 'ssh',
    hint: 'Open a new one with openShell().',
  })
}

import { SandboxError } from '../errors.ts'
import { abortable, abortedError, onAbort, throwIfAborted } from '../shared/calls/abort.ts'
import * as scripts from '../shared/guest/shell.ts'
import { keyOf, randomId } from '../shared/ids.ts'
import { chunksOf, concat, encode } from '../shared/output/bytes.ts'
import { HeadTail } from '../shared/output/collect.ts'
import type {
  CallOptions,
  OpenShellOptions,
  ProcessEvent,
  ProcessExit,
  SandboxShell,
  ShellExecOptions,
  ShellResult,
} from '../spec/index.ts'
import type { Checked, ProcessDriver, ProcessSpec, SandboxDriver } from './driver.ts'
import { refuseLogin } from './login.ts'
import { checkCount, checkMs, invalid } from './validate.ts'

export type ShellHome = Pick<SandboxDriver, 'sandboxId' | 'spawn'> &
  Required<Pick<SandboxDriver, 'getProcess'>>

export interface ShellPlace {
  readonly provider: string
  readonly root?: string
}

interface ShellFacts extends ShellPlace {
  readonly name: string
  readonly key: string
  readonly env: Readonly<Record<string, string>>
}

export async function openGuestShell(
  home: ShellHome,
  place: ShellPlace,
  options: Checked<OpenShellOptions>,
  { signal }: CallOptions,
): Promise<SandboxShell> {
  throwIfAborted(signal, 'Opening the shell')
  refuseLogin(options, place.provider)
  const name = options.name ?? `shell-${randomId(8)}`
  // Several sandboxes may share one machine, so the key names the sandbox, too.
  const key = `.shell-${await keyOf(`${home.sandboxId}/${name}`)}`
  const shell = new GuestShell(home, { name, key, env: options.env, ...place })
  const opening = shell.open(options.cwd)
  try {
    await abortable(opening, signal, 'Opening the shell')
    return shell
  } catch (error) {
    // A named shell may be in use by another caller, so only an unnamed one is closed.
    if (signal?.aborted && options.name === undefined) void opening.then(() => shell.close()).catch(() => {})
    throw error
  }
}

/** A bash in a sandbox that can only run programs; see `shared/guest/shell.ts`. */
class GuestShell implements SandboxShell {
  readonly #home: ShellHome
  readonly #facts: ShellFacts
  #cwd = '/'
  #closed = false
  #queue: Promise<unknown> = Promise.resolve()

  constructor(home: ShellHome, facts: ShellFacts) {
    this.#home = home
    this.#facts = facts
  }

  get name(): string {
    return this.#facts.name
  }

  get cwd(): string {
    return this.#cwd
  }

  async open(cwd: string | undefined): Promise<void> {
    const folder = await this.#ask(scripts.open, {
      env: this.#facts.env,
      cwd,
    })
    this.#cwd = folderOf(folder)
  }

  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    if (typeof command !== 'string') throw invalid('`command` must be a string.')
    if (command.includes('\0')) throw invalid('`command` contains a NUL character.')
    if (options.timeoutMs !== undefined) checkMs(options.timeoutMs, 'timeoutMs')
    mostBytes(options)
    const id = options.execId === undefined ? `.c-${randomId()}` : await commandId(options.execId)
    const turn = this.#queue.then(() => this.#exec(command, id, options, false))
    this.#queue = turn.catch(() => {})
    // The next command waits until this one has ended; a caller that cancels does not wait.
    return abortable(turn, options.signal, 'The command')
  }

  async attach(
    execId: string,
    options: Omit<ShellExecOptions, 'execId' | 'timeoutMs'> = {},
  ): Promise<ShellResult> {
    const { signal, onFound } = options
    const process = await this.#home.getProcess(await commandId(execId), { signal })
    onFound?.()
    return (await this.#result(process, options)) ?? Promise.reject(this.#isClosed())
  }

  async close({ signal }: CallOptions = {}): Promise<boolean> {
    if (this.#closed) return false
    throwIfAborted(signal, 'Closing the shell')
    this.#closed = true
    try {
      return (await this.#ask(scripts.close, { signal, env: quiet })) === '1'
    } catch (error) {
      this.#closed = false
      throw error
    }
  }

  async #exec(
    command: string,
    id: string,
    options: ShellExecOptions,
    shellRestarted: boolean,
  ): Promise<ShellResult> {
    const { signal, timeoutMs } = options
    throwIfAborted(signal, 'The command')
    if (this.#closed) throw this.#isClosed()
    const limit = timeoutMs === undefined ? '-' : String(Math.max(1, Math.ceil(timeoutMs)))
    // Not cancellable: a signal ends the command. Dropping the request would leave it running.
    const process = await this.#run(scripts.exec, [id, limit, markOf(id)], { ...given(command), execId: id })
    const result = await this.#result(process, options)
    if (result) return { ...result, shellRestarted }
    // The shell had ended before the command, which did not run.
    if (shellRestarted) throw this.#lost()
    await this.open(this.#cwd)
    return this.#exec(command, `${id}-`, options, true)
  }

  /** Follows a command to its end. Undefined if the shell had ended before the command. */
  async #result(
    process: ProcessDriver,
    options: Omit<ShellExecOptions, 'execId' | 'timeoutMs'>,
  ): Promise<ShellResult | undefined> {
    const { signal, onOutput, outputBudget } = options
    const forget = onAbort(signal, () => void process.kill('SIGTERM', {}).catch(() => {}))
    const kept = new HeadTail(mostBytes(options), outputBudget)
    const cut = new Cut(markOf(process.execId))
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    const tell = async (text: string) => {
      if (text !== '' && !signal?.aborted) await onOutput?.(text)
    }
    let said = ''
    let missed = false
    try {
      for await (const event of fromOldest(process, () => (missed = true))) {
        if (event.type === 'stderr') said = (said + new TextDecoder().decode(event.data)).slice(-mostSaid)
        if (event.type !== 'stdout') continue
        const data = cut.before(event.data)
        kept.push(data)
        await tell(decoder.decode(data, { stream: true }))
      }
      await tell(decoder.decode())
    } finally {
      forget()
    }
    if (signal?.aborted) throw abortedError(signal, 'The command')
    const [word, code, late, ms, folder] = lastLine(said).split(' ')
    if (word === 'ended') return undefined
    if (word === 'closed') throw this.#isClosed()
    if (word !== 'over') throw this.#lost()
    if (folder) this.#cwd = folderOf(folder)
    return {
      exitCode: Number(code),
      output: kept.text(),
      cwd: this.#cwd,
      timedOut: late === '1',
      // Without its mark the output is incomplete: the relay was killed.
      truncated: missed || kept.truncated || !cut.found,
      durationMs: Number(ms),
      shellRestarted: false,
    }
  }

  async #ask(script: string, options: RunOptions & CallOptions): Promise<string> {
    const process = await this.#run(script, [], options, options)
    const chunks: Uint8Array[] = []
    let exit: ProcessExit | undefined
    for await (const event of process.events(0, options.signal)) {
      if (event.type === 'stdout') chunks.push(event.data)
      if (event.type === 'exit') exit = event
    }
    const [word, value = ''] = lastLine(concat(chunks).toString('utf8')).split(' ')
    if (word === 'ok') return value
    throw new SandboxError('provider_error', `A script in the sandbox exited with ${exit?.exitCode}.`, {
      provider: this.#facts.provider,
      sandboxId: this.#home.sandboxId,
      hint: 'The image needs bash, GNU coreutils and grep; /tmp must be writable, and not be full.',
    })
  }

  #run(
    script: string,
    args: readonly string[],
    { cwd, env, stdin = 'empty', execId }: RunOptions,
    call: CallOptions = {},
  ): Promise<ProcessDriver> {
    const { key, root = '/tmp/.sandkasten/shells' } = this.#facts
    return this.#home.spawn(
      {
        cmd: 'bash',
        args: ['-c', script, 'sandkasten', root, key, ...args],
        env,
        cwd,
        stdin,
        execId,
        detached: false,
        reading: true,
        outputBufferBytes: bufferBytes,
      },
      call,
    )
  }

  #isClosed(): SandboxError {
    return new SandboxError('not_running', `The shell “${this.name}” is closed.`, {
      provider: this.#facts.provider,
      sandboxId: this.#home.sandboxId,
      hint: {
        sdk: 'Open a new one with openShell().',
        http: 'Open a new one with POST /v1/sessions/{id}/shells.',
        cli: 'Open a new one: sandkasten shells open.',
      },
    })
  }

  #lost(): SandboxError {
    return new SandboxError(
      'interrupted',
      'The exit code of the command is unknown: the process that waited for it was killed.',
      {
        provider: this.#facts.provider,
        sandboxId: this.#home.sandboxId,
        hint: 'The shell still works; check what the command has done.',
      },
    )
  }
}

type RunOptions = Pick<ProcessSpec, 'env' | 'execId'> & Partial<Pick<ProcessSpec, 'cwd' | 'stdin'>>

/** How much of a command's output is kept for \`attach\`. */
const bufferBytes = 8 * 1024 * 1024

/** All events. If the oldest were dropped, continues after them. */
async function* fromOldest(process: ProcessDriver, missed: () => void): AsyncGenerator<ProcessEvent> {
  for (let after = 0; ; ) {
    try {
      return yield* process.events(after)
    } catch (error) {
      const oldest = SandboxError.is(error, 'gone') ? Number(error.details.oldest) : 0
      if (!(oldest - 1 > after)) throw error
      missed()
      after = oldest - 1
    }
  }
}

/** Programs of this library begin with a dot, so that they are not listed. */
async function commandId(execId: string): Promise<string> {
  return `.k-${await keyOf(execId)}`
}

/** The end of a command's output. It begins with a character that does not occur in text, so no text is held back. */
function markOf(id: string): string {
  return `\u001esandkasten-end-${id}`
}

function mostBytes({ maxOutputBytes }: ShellExecOptions): number {
  return checkCount(maxOutputBytes ?? 4 * 1024 * 1024, 'maxOutputBytes', 2 ** 30)
}

/** Keeps bash from reading a startup file that prints something. */
const quiet = { BASH_ENV: '' }
const mostSaid = 64 * 1024

/** A short command is passed in the environment of its request. Arguments would be visible to every process. */
function given(command: string): RunOptions {
  const bytes = encode(command)
  if (bytes.byteLength > mostGiven) return { env: quiet, stdin: chunksOf(bytes) }
  return { env: { ...quiet, SANDKASTEN_COMMAND: concat([bytes]).toString('base64') }, stdin: 'empty' }
}

/** Linux limits one string to 128 KiB. */
const mostGiven = 48 * 1024

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1)!
}

function folderOf(base64: string): string {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  return new TextDecoder().decode(bytes).slice(0, -1)
}

/** Passes on everything before a mark, as soon as it cannot be part of the mark. */
export class Cut {
  readonly #mark: Uint8Array
  #held = new Uint8Array(0)
  #found = false

  constructor(mark: string) {
    this.#mark = encode(mark)
  }

  get found(): boolean {
    return this.#found
  }

  /** Returns the bytes before the mark, including bytes held back earlier. */
  before(data: Uint8Array): Uint8Array {
    if (this.#found) return nothing
    const all = this.#held.byteLength === 0 ? data : concat([this.#held, data])
    const at = this.#find(all)
    this.#held = all.slice(at)
    this.#found = this.#held.byteLength >= this.#mark.byteLength
    return all.subarray(0, at)
  }

  #find(all: Uint8Array): number {
    const mark = this.#mark
    for (let at = all.indexOf(mark[0]!); at !== -1; at = all.indexOf(mark[0]!, at + 1))
      if (mark.every((byte, offset) => at + offset >= all.byteLength || all[at + offset] === byte)) return at
    return all.byteLength
  }
}

const nothing = new Uint8Array(0)

import type { Checked } from '../../core/driver.ts'
import { checkCount } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { randomId } from '../../shared/ids.ts'
import { encode } from '../../shared/output/bytes.ts'
import type {
  CallOptions,
  OpenTerminalOptions,
  OutputOptions,
  ProcessEvent,
  ProcessSignal,
  ProcessStatus,
  SandboxTerminal,
} from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'
import { hunt, markVariable } from './guest/programs.ts'
import { OutputStream } from './output-stream.ts'

/** One of the vendor's pseudo-terminals. This process keeps its output. */
export class E2BTerminal implements SandboxTerminal {
  readonly terminalId: string
  readonly #guest: Guest
  readonly #stream: OutputStream
  readonly #mark: string

  constructor(guest: Guest, given: { terminalId: string; mark: string; stream: OutputStream }) {
    this.#guest = guest
    this.terminalId = given.terminalId
    this.#mark = given.mark
    this.#stream = given.stream
  }

  get ended(): boolean {
    return this.#stream.exit !== undefined
  }

  async write(data: string | Uint8Array, { signal }: CallOptions = {}): Promise<void> {
    if (this.ended) throw new SandboxError('stdin_closed', 'The terminal has ended.', { provider: 'e2b' })
    const options = { signal }
    await this.#guest.do(({ pty }) => pty.sendInput(this.#stream.pid, encode(data), options), signal)
  }

  async resize(size: { cols: number; rows: number }, { signal }: CallOptions = {}): Promise<void> {
    const checked = { cols: checkCount(size?.cols, 'cols', 1000), rows: checkCount(size?.rows, 'rows', 1000) }
    await this.#guest.do(({ pty }) => pty.resize(this.#stream.pid, checked, { signal }), signal)
  }

  output({ after = 0, signal }: OutputOptions = {}): AsyncIterable<ProcessEvent> {
    return this.#stream.read(after, signal)
  }

  async kill(signal: ProcessSignal = 'SIGTERM', { signal: call }: CallOptions = {}): Promise<boolean> {
    if (this.ended) return false
    const found = await this.#guest.ask(hunt, [signal.replace(/^SIG/, ''), this.#mark], call)
    return found.stdout !== 'none'
  }

  async status(_: CallOptions = {}): Promise<ProcessStatus> {
    const exit = this.#stream.exit
    if (!exit) return { running: await this.#stream.running() }
    const { seq: _seq, type: _type, ...facts } = exit
    return { running: false, exit: facts }
  }
}

/** Starts a login shell by default, in the sandbox's working directory. */
export async function openTerminal(
  guest: Guest,
  options: Checked<OpenTerminalOptions> & { cols: number; rows: number; terminalId: string },
  { signal }: CallOptions,
): Promise<E2BTerminal> {
  const { incarnation } = guest
  const mark = randomId()
  const cwd =
    options.cwd === undefined
      ? incarnation.workdir
      : options.cwd.startsWith('/')
        ? options.cwd
        : `${incarnation.workdir}/${options.cwd}`
  const command =
    options.cmd === undefined ? ['/bin/bash', '-i', '-l'] : [options.cmd, ...(options.args ?? [])]
  const envs = {
    TERM: 'xterm-256color',
    LANG: 'C.UTF-8',
    LC_ALL: 'C.UTF-8',
    ...options.env,
    [markVariable]: mark,
  }
  const stream = await OutputStream.start(guest, {
    request: {
      process: {
        cmd: '/bin/sh',
        args: ['-c', 'cd -- "$1" && shift && exec "$@"', 'sandkasten', cwd, ...command],
        envs,
      },
      tag: options.terminalId,
      stdin: true,
      pty: { size: { cols: options.cols, rows: options.rows } },
    },
    capacityBytes: screenBytes,
    signal,
  })
  return new E2BTerminal(guest, { terminalId: options.terminalId, mark, stream })
}

const screenBytes = 8 * 1024 * 1024

import { SandboxError } from '../../errors.ts'
import type { ProcessEvent, ProcessExit } from '../../spec/index.ts'
import { bytesOf } from './files.ts'
import type { VendorCommand } from './sdk.ts'
import { LogGate, type Transport } from './transport.ts'

/** One line of our script's output. */
export type Said =
  | { kind: 'started'; keptBytes: number }
  | { kind: 'refused'; reason: string }
  | { kind: 'event'; event: ProcessEvent; keptBytes?: number }

/** Reads a command's log from the beginning, line by line and on demand. */
export class ProcessLog {
  readonly #next: () => Promise<IteratorResult<{ stream: string; data: string }>>
  readonly #close: () => void
  #text = ''
  #lines: string[] = []
  #first = true

  private constructor(
    next: () => Promise<IteratorResult<{ stream: string; data: string }>>,
    close: () => void,
  ) {
    this.#next = next
    this.#close = close
  }

  static async open(transport: Transport, command: VendorCommand): Promise<ProcessLog> {
    const gate = new LogGate()
    // One reading at a time per command: the next request for this log must use its own gate.
    return transport.turn(command.cmdId, async () => {
      transport.announce(command.cmdId, gate)
      const logs = command.logs()
      const iterator = logs[Symbol.asyncIterator]()
      let first: Promise<IteratorResult<{ stream: string; data: string }>> | undefined = iterator.next()
      first.catch(() => {})
      await Promise.race([gate.taken, first.then(nothing, nothing)])
      const next = async () => {
        const waiting = first
        first = undefined
        if (waiting) return waiting
        gate.consume()
        return iterator.next()
      }
      const close = () => {
        logs.close()
        void Promise.resolve(iterator.return?.()).catch(nothing)
      }
      return new ProcessLog(next, close)
    })
  }

  /** The next line; undefined at the end of the log. */
  async next(): Promise<Said | undefined> {
    for (;;) {
      const line = this.#lines.shift()
      if (line !== undefined) {
        const first = this.#first
        this.#first = false
        // The vendor has dropped the beginning, so the first line is incomplete.
        if (first && !/^[s!] /.test(line)) continue
        return said(line)
      }
      const { done, value } = await this.#next()
      if (done) return undefined
      // stderr carries only messages of the shell itself.
      if (value.stream !== 'stdout') continue
      const lines = (this.#text + value.data).split('\n')
      this.#text = lines.pop()!
      this.#lines = lines
    }
  }

  close(): void {
    this.#close()
  }
}

function said(line: string): Said {
  const [first = '', second = '', third = '', ...rest] = line.split(' ')
  if (first === 's') return { kind: 'started', keptBytes: Number(second) }
  if (first === '!') return { kind: 'refused', reason: second }
  if (first === 'x') {
    const keptBytes = Number(rest.pop())
    const exit = exitOf([third, ...rest].join(' '))
    if (exit) return { kind: 'event', event: { seq: Number(second), type: 'exit', ...exit }, keptBytes }
  }
  if (/^\d+$/.test(first) && (second === 'o' || second === 'e')) {
    const type = second === 'o' ? 'stdout' : 'stderr'
    return { kind: 'event', event: { seq: Number(first), type, data: bytesOf(third) } }
  }
  throw new SandboxError('provider_error', 'The log of a command is malformed.', {
    provider: 'vercel',
    hint: 'Vercel’s response was changed or truncated on its way.',
  })
}

export function exitOf(text: string): ProcessExit | undefined {
  const match = /^(\d+) (\d+) ([01]) (\d+)$/.exec(text.trim())
  if (!match) return undefined
  const [code, signal, late, ms] = match.slice(1).map(Number) as [number, number, number, number]
  return {
    exitCode: code,
    signal: signal === 0 ? undefined : (signalNames[signal] ?? `SIG${signal}`),
    timedOut: late === 1,
    durationMs: ms,
  }
}

const signalNames: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  5: 'SIGTRAP',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  10: 'SIGUSR1',
  11: 'SIGSEGV',
  12: 'SIGUSR2',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
  24: 'SIGXCPU',
  25: 'SIGXFSZ',
  31: 'SIGSYS',
}

function nothing(): void {}

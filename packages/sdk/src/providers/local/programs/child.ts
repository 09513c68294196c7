import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import type { Readable } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import { errnoOf, translate } from '../../../folder/errors.ts'
import { OutputLog } from '../../../shared/output/output-log.ts'
import { processMarker } from './environment.ts'
import { type MergedPipe, openMergedPipe } from './merged-pipe.ts'
import { killTree, signalTree, type Target } from './process-tree.ts'

export interface ChildSpec {
  /** A unique mark on this machine, which identifies all descendants of the process. */
  readonly marker: string
  readonly cmd: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: boolean
  /** One pipe for stdout and stderr. */
  readonly merged?: boolean | undefined
  readonly timeoutMs?: number
  readonly outputBufferBytes: number
}

/** How long a program with much output waits for its first reader, whose request arrives after the start. As in the runner. */
const firstReaderMs = 2000

/**
 * One program with its output log. It runs in this process or, if detached, in its supervisor.
 *
 * The program has ended when its own process has, not when its output ends: `sh -c 'server &'` ends although the server
 * still holds the pipe. Output from before the exit is read to the last byte. Later output is read and discarded, so that
 * the server does not get SIGPIPE.
 */
export class Child {
  readonly pid: number
  readonly log: OutputLog
  readonly #child: ChildProcess
  readonly #target: Target
  readonly #streams: readonly Readable[]
  readonly #startedAt = performance.now()
  #timedOut = false
  #reads = 0
  #paused = false
  #onResume: (() => void) | undefined

  /** Resolves when the program runs. Rejects with `command_not_found` and similar errors. */
  static async start(spec: ChildSpec): Promise<Child> {
    checkCwd(spec.cwd)
    const merged = spec.merged ? await openMergedPipe() : undefined
    const output = merged?.writer ?? 'pipe'
    let child: ChildProcess
    try {
      child = spawn(spec.cmd, [...spec.args], {
        cwd: spec.cwd,
        env: { ...spec.env, [processMarker]: spec.marker },
        stdio: [spec.stdin ? 'pipe' : 'ignore', output, output],
        // A separate process group, so that one signal reaches all of it.
        detached: process.platform !== 'win32',
        windowsHide: true,
      })
    } catch (error) {
      merged?.reader.destroy()
      throw startError(spec.cmd, error)
    } finally {
      if (merged) closeSync(merged.writer)
    }
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', (error) => {
        merged?.reader.destroy()
        reject(startError(spec.cmd, error))
      })
    })
    return new Child(child, spec, merged)
  }

  private constructor(child: ChildProcess, spec: ChildSpec, merged: MergedPipe | undefined) {
    this.#child = child
    this.pid = child.pid!
    this.#target = { pid: this.pid, marker: { name: processMarker, value: spec.marker } }
    const streams = merged ? { stdout: merged.reader } : { stdout: child.stdout!, stderr: child.stderr! }
    this.#streams = Object.values(streams)
    this.log = new OutputLog({
      capacityBytes: spec.outputBufferBytes,
      onPressure: (wait) => this.#pause(wait),
    })
    setTimeout(this.log.expectReader(), firstReaderMs).unref()
    for (const [name, stream] of Object.entries(streams) as Array<['stdout' | 'stderr', Readable]>) {
      stream.on('data', (data: Buffer) => {
        this.#reads += 1
        this.log.push(name, data)
      })
      // Treat a reset pipe as the end of output.
      stream.on('error', () => {})
    }
    // write() reports a write to an ended program.
    child.stdin?.on('error', () => {})
    const timer = spec.timeoutMs === undefined ? undefined : setTimeout(() => this.#expire(), spec.timeoutMs)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      void this.#finish(code, signal)
    })
  }

  get running(): boolean {
    return this.log.exit === undefined
  }

  async kill(signal: NodeJS.Signals): Promise<boolean> {
    if (!this.running) return false
    if (signal === 'SIGKILL') await killTree(this.#target)
    else await signalTree(this.#target, signal)
    return true
  }

  async write(data: Uint8Array): Promise<void> {
    const { stdin } = this.#child
    if (!stdin?.writable || !this.running) throw stdinClosed()
    await new Promise<void>((resolve, reject) => {
      stdin.write(data, (error) => (error ? reject(stdinClosed(error)) : resolve()))
    })
  }

  closeStdin(): void {
    this.#child.stdin?.end()
  }

  #expire(): void {
    this.#timedOut = true
    void killTree(this.#target)
  }

  #pause(wait: boolean): void {
    this.#paused = wait
    for (const stream of this.#streams) wait ? stream.pause() : stream.resume()
    if (!wait) this.#onResume?.()
  }

  async #finish(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    const durationMs = performance.now() - this.#startedAt
    await this.#drain()
    this.#abandon()
    if (this.#timedOut) await killTree(this.#target)
    const exitCode = code ?? 128 + (signal ? constants.signals[signal] : 0)
    this.log.end({ exitCode, signal: signal ?? undefined, timedOut: this.#timedOut, durationMs })
  }

  /**
   * After the exit, all output is in the pipes, and one turn of the event loop reads everything that a pipe can hold. So this
   * waits until a turn reads nothing, and for slow readers that paused the pipe.
   */
  async #drain(): Promise<void> {
    const open = () => this.#streams.some((stream) => !stream.readableEnded && !stream.destroyed)
    for (let quiet = 0; quiet < 2 && open(); ) {
      if (this.#paused) await new Promise<void>((resolve) => (this.#onResume = resolve))
      const before = this.#reads
      await new Promise((resolve) => setImmediate(resolve))
      quiet = this.#reads === before && !this.#paused ? quiet + 1 : 0
    }
  }

  #abandon(): void {
    for (const stream of this.#streams) {
      stream.removeAllListeners('data')
      stream.resume()
      ;(stream as Readable & { unref?: () => void }).unref?.()
    }
    this.#child.stdin?.destroy()
  }
}

/** The system reports a missing folder and a missing program alike; this finds out which it is. */
export function checkCwd(cwd: string): void {
  try {
    if (statSync(cwd).isDirectory()) return
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR')
      throw translate(error, `The working directory ${cwd}`)
    throw new SandboxError('cwd_not_found', `The working directory ${cwd} does not exist.`, {
      provider: 'local',
      cause: error,
    })
  }
  throw new SandboxError('cwd_not_found', `The working directory ${cwd} is not a directory.`, {
    provider: 'local',
  })
}

function startError(cmd: string, error: unknown): SandboxError {
  const options = { provider: 'local', cause: error, details: { cmd } }
  const errno = errnoOf(error)
  if (errno === 'ENOENT' || errno === 'ENOTDIR')
    return new SandboxError('command_not_found', `The program “${cmd}” does not exist.`, options)
  if (errno === 'EACCES' || errno === 'EPERM') {
    return new SandboxError('permission_denied', `The program “${cmd}” cannot be executed.`, {
      ...options,
      hint: {
        sdk: 'Make it executable with files.chmod(path, 0o755).',
        http: 'Make it executable with POST /v1/sessions/{id}/files/chmod.',
        cli: 'Make it executable (chmod +x), or run it through its interpreter: sh SCRIPT.',
      },
    })
  }
  if (errno === 'ENOEXEC' || errno === 'EINVAL' || errno === 'UNKNOWN') {
    return new SandboxError(
      'invalid_argument',
      `The file “${cmd}” is not a program that this system can run.`,
      {
        ...options,
        hint: 'Run it through its interpreter, for example sh script.sh.',
      },
    )
  }
  return translate(error, `The program “${cmd}” could not be started`)
}

function stdinClosed(cause?: unknown): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'local', cause })
}

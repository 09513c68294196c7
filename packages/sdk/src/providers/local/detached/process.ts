import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ProcessDriver } from '../../../core/driver.ts'
import { type Hints, SandboxError, type SandboxErrorCode } from '../../../errors.ts'
import { errnoOf, guarded } from '../../../folder/errors.ts'
import { isAlive } from '../../../folder/record.ts'
import { abortedError, onAbort, throwIfAborted } from '../../../shared/calls/abort.ts'
import { randomId } from '../../../shared/ids.ts'
import type {
  CallOptions,
  ExitEvent,
  ProcessEvent,
  ProcessExit,
  ProcessSignal,
  ProcessStatus,
} from '../../../spec/index.ts'
import { decodeEvent, decodeFrames, encodeFrame } from './frames.ts'
import type { ProcessRecord, SupervisorTask } from './supervisor.ts'

export async function startDetached(task: Omit<SupervisorTask, 'socketPath'>): Promise<DetachedProcess> {
  const socketPath = await newSocketPath()
  const file = fileURLToPath(
    new URL(import.meta.url.endsWith('.ts') ? './supervisor.ts' : './supervisor.js', import.meta.url),
  )
  const supervisor = spawn(process.execPath, [file], {
    cwd: task.folder,
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    // Only variables that Node needs; the task contains the program's environment.
    env: Object.fromEntries(
      ['PATH', 'SystemRoot', 'TMPDIR', 'TEMP'].flatMap((name) =>
        process.env[name] === undefined ? [] : [[name, process.env[name]]],
      ),
    ),
    windowsHide: true,
  })
  supervisor.stdin.on('error', () => {})
  supervisor.stdin.end(JSON.stringify({ ...task, socketPath } satisfies SupervisorTask))
  const failed = once(supervisor, 'error').then(([error]) => {
    throw error
  })
  const answer = await guarded('The supervisor of the process could not be started', () =>
    Promise.race([firstLine(supervisor.stdout), failed]),
  )
  failed.catch(() => {})
  supervisor.unref()
  supervisor.stdout.destroy()
  if (answer?.error) throw remoteError(answer.error)
  const process_ = await findDetached(task.folder)
  if (process_) return process_
  throw new SandboxError('internal', 'The supervisor of the process ended before the program ran.', {
    provider: 'local',
  })
}

export async function findDetached(folder: string): Promise<DetachedProcess | undefined> {
  const record = await readJson<ProcessRecord>(path.join(folder, 'process.json'))
  return record && new DetachedProcess(folder, record)
}

/** A handle of a supervised process. Uses the socket while the supervisor runs, and its files afterwards. */
export class DetachedProcess implements ProcessDriver {
  readonly execId: string
  readonly pid: number
  readonly record: ProcessRecord
  readonly #folder: string

  constructor(folder: string, record: ProcessRecord) {
    this.#folder = folder
    this.record = record
    this.execId = path.basename(folder)
    this.pid = record.pid
  }

  async *events(after: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent> {
    let last = after
    const socket = await this.#connect()
    if (socket) {
      const forget = onAbort(signal, () => socket.destroy())
      try {
        socket.write(encodeFrame({ op: 'events', after }))
        for await (const frame of decodeFrames(socket)) {
          if (frame.header.error) throw remoteError(frame.header.error as RemoteError)
          const event = decodeEvent(frame)
          if (!event) continue
          last = event.seq
          yield event
          if (event.type === 'exit') return
        }
      } catch (error) {
        if (SandboxError.is(error)) throw error
        // The connection broke off; the files tell whether the process ended.
      } finally {
        forget()
        socket.destroy()
      }
      if (signal?.aborted) throw abortedError(signal, 'Reading the output')
    }
    yield* this.#kept(last)
  }

  async kill(signal: ProcessSignal): Promise<boolean> {
    return (await this.#request({ op: 'kill', signal })) === true
  }

  async write(data: Uint8Array): Promise<void> {
    if ((await this.#request({ op: 'write' }, data)) === ended) throw stdinClosed()
  }

  async closeStdin(): Promise<void> {
    await this.#request({ op: 'close' })
  }

  async status(): Promise<ProcessStatus> {
    const result = await this.#result()
    if (result) {
      const { seq: _, type: __, ...exit } = result
      return { running: false, exit }
    }
    return { running: await isAlive(this.record.supervisor) }
  }

  async waitForExit({ signal }: CallOptions): Promise<ProcessExit> {
    await this.#request({ op: 'wait' }, undefined, signal)
    // The supervisor writes the result right after the end.
    for (;;) {
      throwIfAborted(signal, 'Waiting for the process')
      const { running, exit } = await this.status()
      if (exit) return exit
      if (!running && !(await this.#result())) throw this.#unknownExit()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  /** Ends the supervisor after it has written the result. Otherwise it would wait for its readers. */
  async dismiss(): Promise<void> {
    const { supervisor, socketPath } = this.record
    while (!(await this.#result()) && (await isAlive(supervisor)))
      await new Promise((resolve) => setTimeout(resolve, 5))
    if (await isAlive(supervisor)) process.kill(supervisor.pid, 'SIGKILL')
    // A killed supervisor leaves its socket behind.
    await rm(socketPath, { force: true })
  }

  async #request(header: object, body?: Uint8Array, signal?: AbortSignal): Promise<unknown> {
    const socket = await this.#connect()
    if (!socket) return ended
    const forget = onAbort(signal, () => socket.destroy())
    try {
      socket.write(encodeFrame(header, body))
      for await (const frame of decodeFrames(socket)) {
        if (frame.header.error) throw remoteError(frame.header.error as RemoteError)
        return frame.header.result
      }
      return ended
    } catch (error) {
      if (SandboxError.is(error)) throw error
      return ended
    } finally {
      forget()
      socket.destroy()
    }
  }

  /** Undefined if the supervisor has ended. */
  async #connect(): Promise<Socket | undefined> {
    if (await this.#result()) return undefined
    const socket = connect(this.record.socketPath)
    try {
      await once(socket, 'connect')
      socket.on('error', () => {})
      return socket
    } catch {
      return undefined
    }
  }

  async #result(): Promise<ExitEvent | undefined> {
    return readJson<ExitEvent>(path.join(this.#folder, 'result.json'))
  }

  async *#kept(after: number): AsyncGenerator<ProcessEvent> {
    if (!(await this.#result())) {
      throw this.#unknownExit()
    }
    const bytes = await readFile(path.join(this.#folder, 'output.bin'))
    let first = true
    for await (const frame of decodeFrames(single(bytes))) {
      const event = decodeEvent(frame)
      if (!event) continue
      if (first && event.seq > after + 1) throw goneError(after, event.seq)
      first = false
      if (event.seq > after) yield event
    }
  }

  #unknownExit(): SandboxError {
    return new SandboxError(
      'interrupted',
      `The exit of the process ${this.execId} is unknown: its supervisor is gone.`,
      {
        provider: 'local',
        hint: 'The machine was restarted, or the supervisor was killed. Start the process again.',
      },
    )
  }
}

const ended = Symbol('ended')

interface RemoteError {
  code: SandboxErrorCode
  message: string
  hints?: Hints
  details?: Record<string, unknown>
}

function remoteError({ code, message, hints, details }: RemoteError): SandboxError {
  return new SandboxError(code, message, { provider: 'local', hint: hints, details })
}

function goneError(after: number, oldest: number): SandboxError {
  return new SandboxError(
    'gone',
    `Output after event ${after} was dropped; the oldest kept is event ${oldest}.`,
    { details: { after, oldest } },
  )
}

function stdinClosed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program has ended.', { provider: 'local' })
}

async function* single(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** A short path, because socket paths are limited to about 100 bytes. Only this user can access the folder. */
async function newSocketPath(): Promise<string> {
  const id = randomId()
  if (process.platform === 'win32') return `\\\\.\\pipe\\sandkasten-${id}`
  const folder = path.join(tmpdir(), `sandkasten-${process.getuid?.() ?? userInfo().uid}`)
  await guarded(`The folder ${folder}`, () => mkdir(folder, { recursive: true, mode: 0o700 }))
  return path.join(folder, `${id}.sock`)
}

async function firstLine(
  stream: AsyncIterable<Uint8Array>,
): Promise<{ pid?: number; error?: RemoteError } | undefined> {
  let text = ''
  for await (const chunk of stream) {
    text += Buffer.from(chunk).toString()
    if (text.includes('\n')) return JSON.parse(text.slice(0, text.indexOf('\n')))
  }
  return undefined
}

async function readJson<T>(file: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as T
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

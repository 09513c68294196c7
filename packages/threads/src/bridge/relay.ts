import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ProcessHandle, SandboxError, type SandboxHandle, supports } from '@sandkasten/sdk'
import { limits } from './limits.ts'
import { RelayReader, type RelayRequest, RelayViolation } from './relay-lines.ts'
import { relayProgram, relayStart } from './relay-program.ts'

export interface Relay extends AsyncDisposable {
  /** For programs in the sandbox. It stays the same when the relay is started again. */
  readonly url: string
}

export interface RelayOptions {
  /** The server of the bridge, on this machine. */
  readonly target: string
  /** Told once, if the relay is given up. */
  readonly onEnd?: (reason: string) => void
}

const startMs = 20_000
const restartPauseMs = 500
const restartWindowMs = 600_000

/** Starts a program in the sandbox that listens on its loopback, and answers its requests from here. */
export async function startRelay(handle: SandboxHandle, { target, onEnd }: RelayOptions): Promise<Relay> {
  if (!supports(handle, 'stdin'))
    throw new SandboxError(
      'unsupported',
      `The provider “${handle.provider}” cannot write to programs of the sandbox.`,
      { provider: handle.provider, details: { ability: 'stdin' }, hint: 'Use an agent at home.' },
    )
  const stop = new AbortController()
  const first = new RelayRun(handle, target, 0)
  const port = await first.start()
  const done = keepRunning(handle, target, port, first, stop.signal).catch((error: Error) => {
    if (!stop.signal.aborted) onEnd?.(error.message)
  })
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await done
    },
  }
}

/** A relay that ended is started on the same port, because the agent knows its address. */
async function keepRunning(
  handle: SandboxHandle,
  target: string,
  port: number,
  first: RelayRun,
  signal: AbortSignal,
): Promise<void> {
  const starts: number[] = []
  for (let run = first; ; run = new RelayRun(handle, target, port)) {
    if (run !== first) await run.start()
    await run.ended(signal)
    if (signal.aborted) return
    const now = Date.now()
    while (starts[0] !== undefined && now - starts[0] > restartWindowMs) starts.shift()
    starts.push(now)
    if (starts.length > limits.restarts || !(await isRunning(handle)))
      throw new Error('The relay in the sandbox ends again and again, or the sandbox has stopped.')
    await sleep(restartPauseMs, undefined, { signal })
  }
}

async function isRunning(handle: SandboxHandle): Promise<boolean> {
  return (await handle.status().catch(() => 'unknown')) === 'running'
}

/** One process of the relay. Requests interleave. */
class RelayRun {
  readonly #handle: SandboxHandle
  readonly #target: string
  readonly #port: number
  readonly #open = new Map<number, http.ClientRequest>()
  readonly #failed = new AbortController()
  #process: ProcessHandle | undefined
  #reading: Promise<void> | undefined
  #refused = 0
  /** Lines for the relay that it has not taken yet. */
  #queued = 0
  #writing: Promise<void> = Promise.resolve()

  constructor(handle: SandboxHandle, target: string, port: number) {
    this.#handle = handle
    this.#target = target
    this.#port = port
  }

  /** Returns the port on which the relay listens. */
  async start(): Promise<number> {
    const process = await this.#handle.spawn({
      cmd: 'sh',
      args: ['-c', relayStart, 'sandkasten-relay', relayProgram, String(this.#port)],
      stdin: 'pipe',
      outputBufferBytes: 4 * 1024 * 1024,
    })
    this.#process = process
    const listening = Promise.withResolvers<number>()
    listening.promise.catch(() => {})
    this.#reading = this.#read(process, listening.resolve).then(
      () => listening.reject(new Error('it ended')),
      (error: Error) => {
        listening.reject(error)
        throw error
      },
    )
    this.#reading.catch(() => {})
    const late = AbortSignal.timeout(startMs)
    late.onabort = () => listening.reject(new Error('it does not listen'))
    try {
      return await listening.promise
    } catch (error) {
      await this.#end()
      throw new SandboxError(
        'unavailable',
        `The relay in the sandbox did not start: ${(error as Error).message}.`,
        { provider: this.#handle.provider, hint: 'It needs opencode or Node in the sandbox.' },
      )
    } finally {
      late.onabort = null
    }
  }

  /** Resolves when the process has ended, for any reason; ends it with the signal. */
  async ended(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
      this.#failed.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([this.#reading?.catch(() => {}), aborted])
    await this.#end()
  }

  async #read(process: ProcessHandle, listening: (port: number) => void): Promise<void> {
    const reader = new RelayReader()
    for await (const event of process.output()) {
      if (event.type === 'exit') return
      if (event.type !== 'stdout') continue
      for (const line of reader.read(event.data)) {
        if (line.type === 'listening') listening(line.port)
        else if (line.type === 'cancel') this.#open.get(line.id)?.destroy()
        else this.#forward(line.id, line.request)
      }
      // A relay that floods must not keep this process from other work.
      await new Promise(setImmediate)
    }
  }

  /** To a fixed address: the relay chooses neither host nor path. */
  #forward(id: number, { method, headers, body }: RelayRequest): void {
    if (this.#open.has(id)) throw new RelayViolation('a request has the number of another one')
    if (this.#open.size >= limits.requests) {
      this.#refused += 1
      if (this.#refused > limits.refused) throw new RelayViolation('there are too many requests')
      this.#send({ id, status: 429, headers: {}, isEnd: true })
      return
    }
    let isAnswered = false
    const outgoing = http.request(this.#target, { method, headers, agent: false }, (response) => {
      isAnswered = true
      const type = String(response.headers['content-type'] ?? 'application/json')
      const session = response.headers['mcp-session-id']
      const passed = { 'content-type': type, ...(session && { 'mcp-session-id': String(session) }) }
      this.#send({ id, status: response.statusCode ?? 500, headers: passed })
      response.on('data', (data: Buffer) => this.#send({ id, data: data.toString('base64') }))
      response.on('close', () => this.#close(id))
    })
    this.#open.set(id, outgoing)
    outgoing.on('error', () => {
      if (this.#open.has(id) && !isAnswered) this.#send({ id, status: 502, headers: {} })
      this.#close(id)
    })
    outgoing.end(body)
  }

  #close(id: number): void {
    if (this.#open.delete(id)) this.#send({ id, isEnd: true })
  }

  /** A relay that does not read its input is ended. */
  #send(line: object): void {
    const text = `${JSON.stringify(line)}\n`
    this.#queued += text.length
    if (this.#queued > 4 * limits.responseBytes) {
      this.#failed.abort()
      return
    }
    this.#writing = this.#writing.then(async () => {
      try {
        if (!this.#failed.signal.aborted) await this.#process?.writeStdin(text)
      } catch {
        this.#failed.abort()
      }
      this.#queued -= text.length
    })
  }

  async #end(): Promise<void> {
    this.#failed.abort()
    const process = this.#process
    this.#process = undefined
    if (!process) return
    const signal = AbortSignal.timeout(5_000)
    // The end of its input lets the relay answer open requests with a reason.
    await process.closeStdin({ signal }).catch(() => {})
    const exit = process.wait({ collect: false, timeoutMs: 1_500, signal }).catch(() => undefined)
    if (!(await exit)) await process.kill('SIGKILL', { signal }).catch(() => {})
    for (const outgoing of this.#open.values()) outgoing.destroy()
    this.#open.clear()
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'

/**
 * Starts shims through a small process of ours (`runner launcher`), because starting one from here costs what this process's memory costs to
 * copy, and blocks it meanwhile. One launcher for each isolator, started when it is first needed; if it dies, the next start makes a new one. It
 * keeps one shim ready for a sandbox that nobody has asked for yet.
 */
export class Launcher {
  readonly #runner: string
  #process: LauncherProcess | undefined

  constructor(runner: string) {
    this.#runner = runner
  }

  /** Makes sure that there is one, which begins to prepare at once. What it says of defects goes to the file `log`. */
  warm(setup: () => object, log: string): void {
    if (!this.#process?.alive) this.#process = new LauncherProcess(this.#runner, setup(), log)
  }

  /** The first line that the shim says; empty when it ended without one. */
  async start(task: object): Promise<string> {
    if (!this.#process) throw new Error('there is no launcher')
    return this.#process.start(JSON.stringify(task))
  }

  /** Resolves when it has gone, with what it had prepared. Sandboxes go on. */
  async close(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    await process?.close()
  }
}

interface Waiting {
  resolve(line: string): void
  reject(error: Error): void
}

class LauncherProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  #received: Buffer = Buffer.alloc(0)
  alive = true

  constructor(runner: string, setup: object, log: string) {
    const errors = openSync(log, 'a', 0o600)
    // In a session of its own: a Ctrl-C that is meant for us is not meant for it. It ends when we do, with its input.
    this.#child = spawn(runner, ['launcher'], {
      stdio: ['pipe', 'pipe', errors],
      detached: true,
      env: {},
      cwd: '/',
    })
    closeSync(errors)
    this.#child.once('error', (error) => this.#end(error))
    this.#child.once('exit', (code, signal) => this.#end(new Error(`the launcher ended (${signal ?? code})`)))
    this.#child.stdin!.on('error', (error) => this.#end(error))
    this.#child.stdout!.on('data', (data: Buffer) => this.#receive(data))
    this.#child.unref()
    const body = Buffer.from(JSON.stringify(setup))
    this.#child.stdin!.write(Buffer.concat([uint32(body.length), body]))
    this.#hold()
  }

  start(task: string): Promise<string> {
    this.#lastId = (this.#lastId + 1) >>> 0
    const id = this.#lastId
    const body = Buffer.from(task)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#hold()
      this.#child.stdin!.write(Buffer.concat([uint32(id), uint32(body.length), body]))
    })
  }

  async close(): Promise<void> {
    if (!this.alive) return
    // `exit` comes also for one that could not be started at all, as an error.
    const gone = Promise.race([once(this.#child, 'exit'), once(this.#child, 'error')]).catch(() => {})
    this.#child.ref()
    this.#child.stdin!.end()
    await gone
  }

  #receive(data: Buffer): void {
    this.#received = Buffer.concat([this.#received, data])
    while (this.#received.length >= 8) {
      const end = 8 + this.#received.readUInt32BE(4)
      if (this.#received.length < end) return
      const id = this.#received.readUInt32BE(0)
      const line = this.#received.toString('utf8', 8, end)
      this.#received = this.#received.subarray(end)
      this.#waiting.get(id)?.resolve(line)
      this.#waiting.delete(id)
    }
    this.#hold()
  }

  #end(error: Error): void {
    this.alive = false
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  /** It keeps this process alive only while somebody waits for an answer. */
  #hold(): void {
    for (const stream of [this.#child.stdin, this.#child.stdout] as unknown as Socket[]) {
      if (this.#waiting.size > 0) stream.ref()
      else stream.unref()
    }
  }
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

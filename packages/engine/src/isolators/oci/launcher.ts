import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'

/**
 * Starts shims through a small process of ours (`runner launcher`), because starting one from here costs what this process's memory costs to
 * copy, and blocks it meanwhile. One launcher for each isolator, started when it is first needed; if it dies, the next start makes a new one.
 */
export class Launcher {
  readonly #runner: string
  #process: LauncherProcess | undefined

  constructor(runner: string) {
    this.#runner = runner
  }

  /** The first line that the shim says; empty when it ended without one. */
  start(task: string, log: string): Promise<string> {
    if (!this.#process?.alive) this.#process = new LauncherProcess(this.#runner)
    return this.#process.start(task, log)
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

  constructor(runner: string) {
    // In a session of its own: a Ctrl-C that is meant for us is not meant for it. It ends when we do, with its input.
    this.#child = spawn(runner, ['launcher'], {
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true,
      env: {},
      cwd: '/',
    })
    this.#child.once('error', (error) => this.#end(error))
    this.#child.once('exit', (code, signal) => this.#end(new Error(`the launcher ended (${signal ?? code})`)))
    this.#child.stdin!.on('error', (error) => this.#end(error))
    this.#child.stdout!.on('data', (data: Buffer) => this.#receive(data))
    this.#child.unref()
    this.#hold()
  }

  start(task: string, log: string): Promise<string> {
    this.#lastId = (this.#lastId + 1) >>> 0
    const id = this.#lastId
    const [path, body, header] = [Buffer.from(log), Buffer.from(task), Buffer.alloc(12)]
    header.writeUInt32BE(id, 0)
    header.writeUInt32BE(path.length, 4)
    header.writeUInt32BE(body.length, 8)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#hold()
      this.#child.stdin!.write(Buffer.concat([header, path, body]))
    })
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

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'

/**
 * A small helper process, a mode of the runner's binary. It starts other processes for this one: a fork of a large
 * process copies its page tables and blocks it. Requests and answers travel over pipes, any number at once:
 *
 *     id (u32) │ length (u32) │ request    ─►    id (u32) │ length (u32) │ line
 *
 * The helper ends when its input closes, so it ends with this process.
 */
export class SmallProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  #received: Buffer = Buffer.alloc(0)
  alive = true

  /** `first` is written before any request. The process writes its errors to the file `log`. */
  constructor(program: string, args: readonly string[], options: { first?: string; log?: string } = {}) {
    const errors = options.log === undefined ? undefined : openSync(options.log, 'a', 0o600)
    // In a session of its own, so that Ctrl-C in our terminal does not end it.
    this.#child = spawn(program, args, {
      stdio: ['pipe', 'pipe', errors ?? 'ignore'],
      detached: true,
      env: {},
      cwd: '/',
    })
    if (errors !== undefined) closeSync(errors)
    this.#child.once('error', (error) => this.#end(error))
    this.#child.once('exit', (code, signal) =>
      this.#end(new Error(`runner ${args[0]} ended (${signal ?? code})`)),
    )
    this.#child.stdin!.on('error', (error) => this.#end(error))
    this.#child.stdout!.on('data', (data: Buffer) => this.#receive(data))
    this.#child.unref()
    if (options.first !== undefined) {
      const body = Buffer.from(options.first)
      this.#child.stdin!.write(Buffer.concat([uint32(body.length), body]))
    }
    this.#hold()
  }

  ask(request: string): Promise<string> {
    this.#lastId = (this.#lastId + 1) >>> 0
    const id = this.#lastId
    const body = Buffer.from(request)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#hold()
      this.#child.stdin!.write(Buffer.concat([uint32(id), uint32(body.length), body]))
    })
  }

  /** Resolves when the process has exited. */
  async close(): Promise<void> {
    if (!this.alive) return
    // Node reports a process that could not be started as `error`, without `exit`.
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

  /** Keeps this process alive only while a request is pending. */
  #hold(): void {
    for (const stream of [this.#child.stdin, this.#child.stdout] as unknown as Socket[]) {
      if (this.#waiting.size > 0) stream.ref()
      else stream.unref()
    }
  }
}

interface Waiting {
  resolve(line: string): void
  reject(error: Error): void
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

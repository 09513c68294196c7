import { spawn } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { translate } from '@sandkasten/sdk/internal'
import { readText } from '../read-files.ts'
import { ControlConnection } from './control.ts'

export interface GatewayOptions {
  /**
   * Short, because a socket's path has 107 bytes, and the same for all engines of one root. Called on first use.
   */
  readonly folder: () => string
  /** The path of the binary. */
  readonly binary: () => Promise<string>
  /** The unprivileged id that it gets, if this process is root. */
  readonly user: (() => number) | undefined
  /** Prepares a new connection before it is used. */
  readonly onConnected: (connection: ControlConnection) => Promise<void>
  /** Whether the gateway must be there also without a call: it is restarted when it dies. */
  readonly isNeeded: () => boolean
}

const START_MS = 10_000
const MAX_ANSWER = 4096
const RETRY_MS = [0, 50, 200, 1_000, 5_000] as const
const VERSION = 1

/**
 * The gateway of one engine folder, as a process that outlives this one. Several engine processes share it: each tries
 * to connect, then to start it, and the gateway's lock decides which start wins. When the connection ends, the next
 * call connects or starts again; a needed gateway comes back at once.
 */
export class Gateway {
  readonly #options: GatewayOptions
  #connection: Promise<ControlConnection> | undefined
  #current: ControlConnection | undefined
  #closed = false

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  /** For sockets of sandboxes. */
  get socketFolder(): string {
    return path.join(this.#options.folder(), 'egress')
  }

  /** The connection, ready for requests. Starts the gateway if none runs. */
  connection(): Promise<ControlConnection> {
    if (this.#connection) return this.#connection
    const connecting = this.#connect()
    this.#connection = connecting
    const forget = () => {
      if (this.#connection === connecting) this.#connection = undefined
    }
    connecting.then((connection) => {
      this.#current = connection
      void connection.closed.then(() => {
        forget()
        void this.#restart()
      })
    }, forget)
    return connecting
  }

  /** Closes the connection. The gateway goes on for the sandboxes that run. */
  close(): void {
    this.#closed = true
    this.#current?.close()
  }

  async #restart(): Promise<void> {
    for (let failures = 0; !this.#closed && this.#options.isNeeded(); failures += 1) {
      await sleep(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)], undefined, { ref: false })
      if (this.#closed) return
      const connected = await this.connection().then(
        () => true,
        () => false,
      )
      if (connected) return
    }
  }

  async #connect(): Promise<ControlConnection> {
    const connection = await this.#reach()
    try {
      const { version } = await connection.request('hello', { version: VERSION })
      if (version !== VERSION)
        throw new SandboxError('unavailable', `The gateway that runs has the protocol ${String(version)}.`, {
          hint: 'Another version of the engine started it. Stop its sandboxes; the gateway ends a minute later.',
        })
      await this.#options.onConnected(connection)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  async #reach(): Promise<ControlConnection> {
    const control = path.join(this.socketFolder, 'control.sock')
    const known = await ControlConnection.open(control)
    if (known) return known
    // A gateway that is about to end holds the lock for another moment.
    for (let tries = 0; tries < 20; tries += 1) {
      await this.#start()
      const started = await ControlConnection.open(control)
      if (started) return started
      await sleep(50)
    }
    throw new SandboxError('unavailable', `The gateway does not listen on ${control}.`)
  }

  /** Resolves when a gateway listens: ours, or one that another process has started. */
  async #start(): Promise<void> {
    const { user } = this.#options
    const folder = this.#options.folder()
    const log = path.join(folder, 'gateway.log')
    const binary = await this.#options.binary()
    const errors = openLog(folder, log)
    const ids = user?.()
    const args = ['serve', '--folder', folder, ...(ids === undefined ? [] : ['--user', `${ids}:${ids}`])]
    // In a session of its own and without our variables, which may contain secrets.
    const child = spawn(binary, args, {
      detached: true,
      stdio: ['ignore', 'pipe', errors],
      env: certificateFiles(),
      cwd: '/',
    })
    closeSync(errors)
    child.unref()
    const failed = (reason: string, cause?: unknown) =>
      new SandboxError('unavailable', `The gateway did not start: ${reason}.`, {
        cause,
        hint: `Its messages are in ${log}.`,
      })
    const ended = new Promise<never>((_, reject) => {
      child.once('error', (cause) => reject(failed(cause.message, cause)))
      child.once('exit', (code, signal) => {
        if (code !== 0) reject(failed(`it ended with ${signal ?? code}${lastLine(log)}`))
      })
    })
    ended.catch(() => {})
    const timeout = new AbortController()
    const late = sleep(START_MS, undefined, { signal: timeout.signal }).then(() => {
      child.kill('SIGKILL')
      throw failed(`it did not answer in ${START_MS / 1000} s`)
    })
    late.catch(() => {})
    try {
      await Promise.race([firstLine(child.stdout!), ended, late])
    } finally {
      timeout.abort()
      child.stdout!.destroy()
    }
  }
}

/** Where this machine's certificates are, if its administrator says so. */
function certificateFiles(): NodeJS.ProcessEnv {
  const { SSL_CERT_FILE, SSL_CERT_DIR } = process.env
  return { ...(SSL_CERT_FILE && { SSL_CERT_FILE }), ...(SSL_CERT_DIR && { SSL_CERT_DIR }) }
}

function openLog(folder: string, log: string): number {
  try {
    // Regardless of the umask: the gateway must pass through as another user. The sockets have modes of their own.
    for (const each of [folder, path.join(folder, 'egress')]) {
      mkdirSync(each, { recursive: true, mode: 0o711 })
      chmodSync(each, 0o711)
    }
    return openSync(log, 'a', 0o600)
  } catch (cause) {
    throw translate(cause, 'Cannot create the folder of the gateway')
  }
}

/** Never resolves if the output ends before: the exit tells why. */
function firstLine(output: Readable): Promise<void> {
  return new Promise((resolve) => {
    let size = 0
    output.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (chunk.includes(10) || size > MAX_ANSWER) resolve()
    })
    output.on('error', () => {})
  })
}

function lastLine(log: string): string {
  const line = (readText(log) ?? '').trimEnd().split('\n').at(-1)?.slice(0, 300)
  return line ? ` (${line})` : ''
}

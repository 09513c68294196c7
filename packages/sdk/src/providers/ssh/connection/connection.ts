import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import { connectError, connectionLost, nameOf } from '../errors.ts'
import type { SshSettings } from '../options.ts'
import type { Ssh2, Ssh2Channel, Ssh2Client, Ssh2Sftp } from '../sdk.ts'
import { credentialsOf, HostCheck, type PinnedKey } from './credentials.ts'

/** How many unanswered pings end the connection. */
const PINGS = 3

/**
 * One connection to the host. It keeps this process alive only while a request is pending (`hold`), so an idle
 * provider does not prevent the program from exiting. ssh2's own keep-alive timer would, so we send the pings.
 * A ping is a request that the host refuses.
 */
export class SshConnection {
  readonly closed: Promise<unknown>
  readonly #client: Ssh2Client
  readonly #socket: Socket
  readonly #settings: SshSettings
  #sftp: Promise<Ssh2Sftp> | undefined
  readonly #waiting = new Set<(error: SandboxError) => void>()
  #holds = 0
  #lost: { cause: unknown } | undefined

  static async open(ssh2: Ssh2, settings: SshSettings, pinned: PinnedKey): Promise<SshConnection> {
    const check = await HostCheck.read(settings, pinned)
    const authHandler = await credentialsOf(ssh2, settings)
    const { host, port, username, connectTimeoutMs, pingMs } = settings
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: pingMs })
    const client = new ssh2.Client()
    const closed = new Promise<unknown>((resolve) => {
      let cause: unknown
      client.on('error', (error) => {
        cause = error
      })
      client.on('close', () => resolve(cause))
    })
    try {
      await new Promise<void>((resolve, reject) => {
        client.on('ready', resolve)
        client.on('error', (error) => {
          // Other keys may be left to try; if the host accepts none of them, authentication fails.
          if (error.level === 'agent' && authHandler.length > 1) return
          reject(check.refusal ?? connectError(settings, error))
        })
        closed.then((cause) => reject(check.refusal ?? connectError(settings, cause ?? {})))
        // If packets are dropped, the handshake never starts, and ssh2's own timeout does not apply.
        const late = setTimeout(
          () => reject(connectError(settings, { level: 'client-timeout' })),
          connectTimeoutMs,
        )
        closed.then(() => clearTimeout(late))
        client.on('ready', () => clearTimeout(late))
        client.connect({
          sock: socket,
          username,
          authHandler,
          readyTimeout: connectTimeoutMs,
          hostVerifier: (key) => check.accepts(key),
          algorithms: check.algorithms && { serverHostKey: check.algorithms },
        })
      })
    } catch (error) {
      client.destroy()
      socket.destroy()
      throw error
    }
    return new SshConnection(client, socket, settings, closed)
  }

  private constructor(client: Ssh2Client, socket: Socket, settings: SshSettings, closed: Promise<unknown>) {
    this.#client = client
    this.#socket = socket
    this.#settings = settings
    const pings = this.#watch()
    this.closed = closed.then((cause) => {
      clearInterval(pings)
      this.#lost = { cause }
      for (const reject of this.#waiting) reject(this.lostError())
      return cause
    })
    socket.unref()
  }

  get lost(): boolean {
    return this.#lost !== undefined
  }

  /** Keeps this process alive until the returned function is called. */
  hold(): () => void {
    this.#holds += 1
    if (this.#holds === 1) this.#socket.ref()
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#holds -= 1
      if (this.#holds === 0) this.#socket.unref()
    }
  }

  exec(command: string): Promise<Ssh2Channel> {
    return this.#open((done) => this.#client.exec(command, done))
  }

  /** Opens a connection from the host to one of its own ports. */
  async forward(port: number): Promise<Duplex> {
    const to = (address: string) =>
      this.#open<Duplex>((done) => this.#client.forwardOut('127.0.0.1', 0, address, port, done))
    return to('127.0.0.1').catch((error) => {
      if (!(error instanceof ChannelRefused) || error.isForbidden) throw error
      return to('::1').catch(() => {
        throw error
      })
    })
  }

  sftp(): Promise<Ssh2Sftp> {
    this.#sftp ??= this.#openSftp().catch((error) => {
      this.#sftp = undefined
      throw error
    })
    return this.#sftp
  }

  close(): void {
    this.#client.destroy()
    this.#socket.destroy()
  }

  lostError(): SandboxError {
    return connectionLost(this.#settings, this.#lost?.cause)
  }

  async #openSftp(): Promise<Ssh2Sftp> {
    // Unexpected bytes before the first response close the channel, and ssh2 never calls back.
    const sftp = await Promise.race([
      this.#open<Ssh2Sftp>((done) => this.#client.sftp(done)),
      new Promise<never>((_, reject) => {
        const timer = setTimeout(() => reject(noSftp(this.#settings)), this.#settings.connectTimeoutMs)
        timer.unref()
      }),
    ]).catch((error) => {
      throw error instanceof ChannelRefused || (this.lost ? false : !SandboxError.is(error))
        ? noSftp(this.#settings, error)
        : error
    })
    sftp.on('error', () => {})
    sftp.on('close', () => {
      this.#sftp = undefined
    })
    return sftp
  }

  /**
   * Rejects pending requests when the connection is lost. This is not a race with `closed`, because that promise would
   * retain every race and its values until the connection ends.
   */
  guard<T>(work: Promise<T>): Promise<T> {
    if (this.#lost) {
      work.catch(() => {})
      return Promise.reject(this.lostError())
    }
    return new Promise<T>((resolve, reject) => {
      this.#waiting.add(reject)
      work.then(resolve, reject).finally(() => this.#waiting.delete(reject))
    })
  }

  async #open<T>(ask: (done: (error: Error | undefined, opened: T) => void) => unknown): Promise<T> {
    if (this.#lost) throw this.lostError()
    return this.guard(
      new Promise<T>((resolve, reject) => {
        const done = (error: Error | undefined, opened: T) => {
          if (!error) resolve(opened)
          else if (this.#lost) reject(this.lostError())
          else reject(new ChannelRefused(error))
        }
        try {
          ask(done)
        } catch (cause) {
          // ssh2 throws when it is not connected.
          reject(connectionLost(this.#settings, cause))
        }
      }),
    )
  }

  #watch(): NodeJS.Timeout {
    let waiting = 0
    const timer = setInterval(() => {
      if (this.#holds === 0) return
      if (waiting >= PINGS) return void this.#socket.destroy(new Error('The host does not answer.'))
      waiting += 1
      const answered = () => {
        waiting = 0
      }
      try {
        this.#client.unforwardIn('127.0.0.1', 1, answered)
      } catch {
        // The connection has just been closed.
      }
    }, this.#settings.pingMs)
    timer.unref()
    return timer
  }
}

export class ChannelRefused extends Error {
  constructor(cause: unknown) {
    super('The host refused a channel.', { cause })
  }

  /** The host's configuration forbids the channel (RFC 4254, 5.1); it did not fail. */
  get isForbidden(): boolean {
    return (this.cause as { reason?: unknown }).reason === 1
  }
}

function noSftp(settings: SshSettings, cause?: unknown): SandboxError {
  return new SandboxError('provider_error', `${nameOf(settings)} has no working SFTP.`, {
    provider: 'ssh',
    hint: 'Set `Subsystem sftp internal-sftp` in its sshd_config. The account’s start-up files (.bashrc) must print nothing when there is no terminal.',
    cause,
  })
}

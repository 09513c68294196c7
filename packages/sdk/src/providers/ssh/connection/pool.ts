import type { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import { nameOf } from '../errors.ts'
import type { SshSettings } from '../options.ts'
import { loadSsh2, type Ssh2Channel, type Ssh2Sftp } from '../sdk.ts'
import { ChannelRefused, SshConnection } from './connection.ts'
import type { PinnedKey } from './credentials.ts'

/**
 * A pool of connections to one host. sshd limits a connection to ten sessions, and every open output stream is one.
 * The first connection also carries SFTP. A lost connection leaves the pool, and the next call opens a new one.
 * Requests are never repeated. Only opening a channel is retried on another connection.
 */
export class SshPool {
  readonly #settings: SshSettings
  readonly #pinned: PinnedKey = {}
  #members: Member[] = []
  #opening: Promise<Member> | undefined

  constructor(settings: SshSettings) {
    this.#settings = settings
  }

  /** Opens a session for one command. The session returns to the pool when its channel closes. */
  async exec(command: string): Promise<Session> {
    const { member, opened } = await this.#session((connection) => connection.exec(command))
    const { connection, holds } = member
    let [resting, over] = [false, false]
    const idle = (value: boolean) => {
      if (over || value === resting) return
      resting = value
      if (value) holds.pop()?.()
      else holds.push(connection.hold())
    }
    opened.once('close', () => {
      idle(false)
      over = true
      this.#release(member)
    })
    return { channel: opened, idle, lost: () => (connection.lost ? connection.lostError() : undefined) }
  }

  /** Calls the function once, and keeps the process alive while it runs. */
  async withSftp<T>(work: (sftp: Ssh2Sftp) => Promise<T>): Promise<T> {
    const { connection } = await this.#first()
    const letGo = connection.hold()
    try {
      const sftp = await connection.sftp()
      return await connection.guard(work(sftp))
    } finally {
      letGo()
    }
  }

  /** Connects to a port on the host. Forwarded connections do not count as sessions. */
  async forward(port: number): Promise<Duplex> {
    const { connection } = await this.#first()
    const letGo = connection.hold()
    try {
      const stream = await connection.forward(port)
      stream.once('close', letGo)
      return stream
    } catch (error) {
      letGo()
      throw error
    }
  }

  /** Throws when the host does not forward to that port. Connects to it only if the host allows only some ports. */
  async checkForward(port: number): Promise<void> {
    for (const asked of [0, port]) {
      try {
        // A channel closes only after it is read to the end.
        return void (await this.forward(asked)).resume().destroy()
      } catch (error) {
        if (!(error instanceof ChannelRefused)) throw error
        if (!error.isForbidden) return
        if (asked === port) throw noForwarding(this.#settings, port, error.cause)
      }
    }
  }

  /** Later calls open new connections. */
  close(): void {
    void this.#opening?.then(({ connection }) => connection.close()).catch(() => {})
    for (const { connection } of this.#members) connection.close()
    this.#members = []
  }

  async #session<T>(open: (connection: SshConnection) => Promise<T>): Promise<{ member: Member; opened: T }> {
    for (let tries = 0; ; tries += 1) {
      const member = await this.#withRoom()
      try {
        return { member, opened: await open(member.connection) }
      } catch (error) {
        this.#release(member)
        if (!(error instanceof ChannelRefused)) throw error
        // The host's MaxSessions is lower than the default: use the current number of sessions as the limit.
        if (member.sessions === 0 || tries > 20)
          throw new SandboxError('unavailable', `${nameOf(this.#settings)} refuses to open a session.`, {
            provider: 'ssh',
            hint: 'Raise MaxSessions in its sshd_config, and check that the account may run commands.',
            cause: error.cause,
          })
        member.limit = member.sessions
      }
    }
  }

  async #withRoom(): Promise<Member> {
    for (;;) {
      const free = this.#members.find(({ sessions, limit }) => sessions < limit)
      const member = free ?? (await this.#another())
      // Another call may have taken the session in the meantime.
      if (member.sessions >= member.limit || member.connection.lost) continue
      member.sessions += 1
      member.holds.push(member.connection.hold())
      return member
    }
  }

  #release(member: Member): void {
    member.sessions -= 1
    member.holds.pop()?.()
  }

  async #first(): Promise<Member> {
    return this.#members[0] ?? this.#another()
  }

  /** Opens connections one at a time, because sshd limits unauthenticated connections. */
  #another(): Promise<Member> {
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #connect(): Promise<Member> {
    const ssh2 = await loadSsh2(this.#settings.sdk)
    const connection = await SshConnection.open(ssh2, this.#settings, this.#pinned)
    // SFTP takes one session of the first connection.
    const limit = this.#settings.maxSessions - (this.#members.length === 0 ? 1 : 0)
    const member: Member = { connection, sessions: 0, limit, holds: [] }
    this.#members.push(member)
    void connection.closed.then(() => {
      this.#members = this.#members.filter((one) => one !== member)
    })
    return member
  }
}

function noForwarding(settings: SshSettings, port: number, cause: unknown): SandboxError {
  return new SandboxError('unsupported', `${nameOf(settings)} does not forward to its port ${port}.`, {
    provider: 'ssh',
    hint: 'Set `AllowTcpForwarding local` in its sshd_config, and check PermitOpen and the key’s options in authorized_keys (`restrict`, `no-port-forwarding`).',
    cause,
  })
}

export interface Session {
  readonly channel: Ssh2Channel
  /** An idle session does not keep this process alive. */
  idle(value: boolean): void
  lost(): SandboxError | undefined
}

interface Member {
  readonly connection: SshConnection
  readonly holds: Array<() => void>
  sessions: number
  limit: number
}

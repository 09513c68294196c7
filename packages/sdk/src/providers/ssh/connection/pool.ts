import type { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import { nameOf } from '../errors.ts'
import type { SshSettings } from '../options.ts'
import { loadSsh2, type Ssh2Channel, type Ssh2Sftp } from '../sdk.ts'
import { ChannelRefused, SshConnection } from './connection.ts'
import type { PinnedKey } from './credentials.ts'

/**
 * Connections to one host, as many as are needed: sshd lets a connection carry ten sessions, and every program that is read from is one.
 * The first carries the files too. A connection that is lost is forgotten; the next call makes a new one. Nothing is repeated on it: only
 * opening a channel, before anything was asked, is tried on another.
 */
export class SshPool {
  readonly #settings: SshSettings
  readonly #pinned: PinnedKey = {}
  #members: Member[] = []
  #opening: Promise<Member> | undefined

  constructor(settings: SshSettings) {
    this.#settings = settings
  }

  /** A session for one command. It is given back when its channel closes. */
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

  /** Files. The function is called once; the connection keeps the process alive meanwhile. */
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

  /** To a port on the host. These are no sessions, and are not counted as such. */
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

  /** Throws when the host does not forward to that port. Does not connect to it, unless the host allows only some ports. */
  async checkForward(port: number): Promise<void> {
    for (const asked of [0, port]) {
      try {
        // A channel closes only when it has been read to its end.
        return void (await this.forward(asked)).resume().destroy()
      } catch (error) {
        if (!(error instanceof ChannelRefused)) throw error
        if (!error.isForbidden) return
        if (asked === port) throw noForwarding(this.#settings, port, error.cause)
      }
    }
  }

  /** What is asked for afterwards opens new ones. */
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
        // Another setting of MaxSessions than the usual one: what it carries now is what it can.
        if (member.sessions === 0 || tries > 20)
          throw new SandboxError('unavailable', `${nameOf(this.#settings)} opens no session.`, {
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
      // Others may have taken it while we waited.
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

  /** One at a time: sshd refuses too many that are not yet authenticated. */
  #another(): Promise<Member> {
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #connect(): Promise<Member> {
    const ssh2 = await loadSsh2(this.#settings.sdk)
    const connection = await SshConnection.open(ssh2, this.#settings, this.#pinned)
    // The files' session is one of the first connection's.
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
    hint: 'Set `AllowTcpForwarding local` in its sshd_config, and let neither PermitOpen nor the key’s options in authorized_keys (`restrict`, `no-port-forwarding`) forbid it.',
    cause,
  })
}

export interface Session {
  readonly channel: Ssh2Channel
  /** Whether nothing is asked on it for now: then it does not keep this process alive. */
  idle(value: boolean): void
  /** Why the connection ended, if it has. */
  lost(): SandboxError | undefined
}

interface Member {
  readonly connection: SshConnection
  readonly holds: Array<() => void>
  sessions: number
  limit: number
}

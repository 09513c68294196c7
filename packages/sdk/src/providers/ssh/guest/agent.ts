import { randomBytes } from 'node:crypto'
import { SandboxError } from '../../../errors.ts'
import { abortedError, onAbort, throwIfAborted } from '../../../shared/calls/abort.ts'
import type { GuestStream } from '../../../shared/guest/link.ts'
import { GuestReader } from '../../../shared/guest/reader.ts'
import { randomId } from '../../../shared/ids.ts'
import { quoteArg } from '../../../shared/quote.ts'
import type { Session, SshPool } from '../connection/pool.ts'
import { type SftpCalls, sftpCalls, sftpStatus, statusOf } from '../connection/sftp.ts'
import { agentError, diskFull, nameOf } from '../errors.ts'
import type { SshSettings } from '../options.ts'
import type { Ssh2Channel } from '../sdk.ts'
import { agentName, agentScript } from './script.ts'

export interface AgentFacts {
  /** The real path on the host where everything is stored. */
  readonly root: string
  readonly machine: string
}

export interface AgentCall {
  /** Lines of input. They may contain any bytes. */
  readonly input?: ReadonlyArray<string | Uint8Array> | undefined
  readonly signal?: AbortSignal | undefined
  readonly sandboxId?: string | undefined
  /** The subject of error messages. */
  readonly what?: string | undefined
  /** The longest response. Default 64 MiB. */
  readonly maxBytes?: number
}

export class Agent {
  readonly #pool: SshPool
  readonly #settings: SshSettings
  #ready: Promise<{ facts: AgentFacts; script: string }> | undefined

  constructor(pool: SshPool, settings: SshSettings) {
    this.#pool = pool
    this.#settings = settings
  }

  async facts(): Promise<AgentFacts> {
    return (await this.#prepare()).facts
  }

  /** Returns the whole response. Cancelling does not undo work that the host has begun. */
  async call(verb: string, args: ReadonlyArray<string | number>, call: AgentCall = {}): Promise<string> {
    throwIfAborted(call.signal)
    const { script } = await this.#prepare()
    return this.#ask(script, verb, args, call)
  }

  async open(verb: string, args: ReadonlyArray<string | number>, call: AgentCall = {}): Promise<AgentStream> {
    throwIfAborted(call.signal)
    const { script } = await this.#prepare()
    return this.#start(script, verb, args, call)
  }

  async #ask(
    script: string,
    verb: string,
    args: ReadonlyArray<string | number>,
    call: AgentCall,
  ): Promise<string> {
    const stream = await this.#start(script, verb, args, call)
    stream.endOfInput()
    const forget = onAbort(call.signal, () => stream.close())
    try {
      const answer = await stream.rest(call.maxBytes ?? 64 * 1024 * 1024)
      if (call.signal?.aborted) throw abortedError(call.signal)
      await stream.finish()
      return new TextDecoder().decode(answer)
    } catch (error) {
      stream.close()
      throw call.signal?.aborted ? abortedError(call.signal) : error
    } finally {
      forget()
    }
  }

  async #start(
    script: string,
    verb: string,
    args: ReadonlyArray<string | number>,
    call: AgentCall,
  ): Promise<AgentStream> {
    for (const word of args)
      if (!/^[A-Za-z0-9_.:-]+$/.test(String(word)))
        throw new SandboxError('internal', `The argument ${JSON.stringify(word)} cannot be sent to the host.`)
    const nonce = randomBytes(16).toString('hex')
    const command = `exec /bin/sh ${quoteArg(script)} ${[nonce, verb, ...args].join(' ')}`
    const session = await this.#pool.exec(command)
    const stream = new AgentStream(session, nonce, call)
    for (const line of call.input ?? []) session.channel.write(`${Buffer.from(line).toString('base64')}\n`)
    return stream
  }

  /** Installs the script and greets it, once for each object. */
  #prepare(): Promise<{ facts: AgentFacts; script: string }> {
    this.#ready ??= this.#install().catch((error) => {
      this.#ready = undefined
      throw error
    })
    return this.#ready
  }

  async #install(): Promise<{ facts: AgentFacts; script: string }> {
    const script = await this.#pool.withSftp(async (raw) => {
      const sftp = sftpCalls(raw)
      const home = await sftp.realpath('.')
      const { root } = this.#settings
      const bin = `${root.startsWith('/') ? root : `${home}/${root}`}/bin`
      const file = `${bin}/${agentName}`
      const there = await sftp.stat(file).catch(() => undefined)
      // The name is the hash of the content and the file is renamed into place, so an existing file is complete.
      if (there?.size === Buffer.byteLength(agentScript)) return file
      const draft = `${file}.${randomId(8)}`
      try {
        await sftp.makeFolders(bin)
        await sftp.writeSmall(draft, Buffer.from(agentScript), 0o600)
        await sftp.replace(draft, file)
      } catch (error) {
        throw await this.#notWritten(sftp, draft, home, error)
      }
      return file
    })
    const [first = '', root = ''] = (
      await this.#ask(script, 'hello', [], { what: nameOf(this.#settings) })
    ).split('\n')
    const [system, machine = ''] = first.split(' ')
    const host = nameOf(this.#settings)
    if (system === 'missing')
      throw new SandboxError('unsupported', `${host} lacks ${machine}, which this provider needs there.`, {
        provider: 'ssh',
        hint: `Install ${machine} there, or put it in the PATH that sshd gives to the account’s commands.`,
      })
    if (system !== 'Linux')
      throw new SandboxError('unsupported', `${host} is not a Linux host.`, {
        provider: 'ssh',
        hint: 'Choose a Linux host.',
      })
    return { facts: { root: Buffer.from(root, 'base64').toString('utf8'), machine }, script }
  }

  /** Translates SFTP's generic errors. */
  async #notWritten(sftp: SftpCalls, draft: string, home: string, error: unknown): Promise<unknown> {
    const status = statusOf(error)
    if (status === undefined) return error
    const { root } = this.#settings
    const full = await sftp.isFull(root.startsWith('/') ? root : home)
    await sftp.unlink(draft).catch(() => {})
    if (full) return diskFull(`Setting up ${nameOf(this.#settings)}`, error)
    return new SandboxError(
      status === sftpStatus.permissionDenied ? 'permission_denied' : 'provider_error',
      `The folder ${root} cannot be created on ${nameOf(this.#settings)}.`,
      { provider: 'ssh', hint: 'Set `root` to a folder that the account may write to.', cause: error },
    )
  }
}

/** One response: lines, and bytes between them. Skips the login shell's output before the nonce. */
export class AgentStream implements GuestStream {
  /** An idle stream does not keep this process alive. */
  readonly idle: Session['idle']
  readonly #channel: Ssh2Channel
  readonly #lost: () => SandboxError | undefined
  readonly #call: AgentCall
  readonly #nonce: string
  readonly #reader: GuestReader
  readonly #closed: Promise<void>
  readonly #writing = new Set<() => void>()
  #begun = false
  #discarding: Promise<void> | undefined
  #status: number | undefined
  #stderr = ''

  constructor({ channel, lost, idle }: Session, nonce: string, call: AgentCall) {
    this.#channel = channel
    this.#lost = lost
    this.idle = idle
    this.#nonce = nonce
    this.#call = call
    channel.on('error', () => {})
    channel.stderr.on('data', (data: Buffer) => {
      this.#stderr = (this.#stderr + data.toString('latin1')).slice(-2000)
    })
    this.#closed = new Promise((resolve) => {
      // Not 'exit': for a response that arrives in one piece, it is emitted before a listener exists.
      channel.once('close', (status?: number | null) => {
        if (typeof status === 'number') this.#status = status
        for (const closed of this.#writing) closed()
        resolve()
      })
    })
    const chunks = channel[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    // Treat a lost connection as the end; `problem` reports the reason.
    this.#reader = new GuestReader('ssh', () =>
      chunks.next().then(
        ({ done, value }) => (done ? undefined : value),
        () => undefined,
      ),
    )
  }

  /** The next line, or undefined at the end of the response. */
  async line(): Promise<string | undefined> {
    await this.#begin()
    return this.#reader.line(64 * 1024)
  }

  async bytes(count: number): Promise<Uint8Array> {
    const data = await this.#reader.bytes(count)
    if (data) return data
    throw await this.problem()
  }

  async rest(maxBytes: number): Promise<Uint8Array> {
    await this.#begin()
    return this.#reader.rest(maxBytes)
  }

  /** The next bytes, or undefined at the end of the response. */
  chunk(): Promise<Uint8Array | undefined> {
    return this.#reader.chunk()
  }

  /** Resolves when the data is sent. It waits while the host's window is full. */
  write(data: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const closed = () => reject(this.#lost() ?? agentError(81, {}))
      if (this.#channel.destroyed || this.#channel.writableEnded) return closed()
      this.#writing.add(closed)
      this.#channel.write(data, (error) => {
        this.#writing.delete(closed)
        if (error) closed()
        else resolve()
      })
    })
  }

  endOfInput(): void {
    this.#channel.end()
  }

  /** Resolves when the response has ended, too. */
  async endInput(): Promise<void> {
    this.#channel.end()
    await this.finish()
  }

  /** Discards the rest of the response. A channel closes only after it is read to the end. */
  discard(): Promise<void> {
    this.#discarding ??= (async () => {
      while (await this.#reader.chunk());
      await this.#closed
    })()
    return this.#discarding
  }

  /** Throws the response's error, if it has one. */
  async finish(): Promise<void> {
    await this.discard()
    if (this.#status !== 0) throw await this.problem()
  }

  async problem(): Promise<SandboxError> {
    await this.discard()
    if (this.#status === undefined) return this.#lost() ?? agentError(undefined, { what: 'it was cut off' })
    const { sandboxId, what } = this.#call
    return agentError(this.#status, { sandboxId, what, stderr: this.#stderr })
  }

  /** Undefined until the response has ended, and when it was cut off. */
  get status(): number | undefined {
    return this.#status
  }

  /** Discards the remaining bytes. Only then does the channel close and release its session. */
  close(): void {
    this.#channel.close()
    void this.discard()
  }

  async #begin(): Promise<void> {
    if (this.#begun) return
    for (;;) {
      const line = await this.#reader.line(mostNoiseBytes)
      if (line === undefined) throw await this.problem()
      if (line === this.#nonce) break
    }
    this.#begun = true
  }
}

/** The longest line that a start-up file may print. */
const mostNoiseBytes = 16 * 1024 * 1024

import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { translate } from '@sandkasten/sdk/internal'
import { errnoName } from '../../../errno.ts'
import type { SandboxEnd } from '../../isolator.ts'
import type { Places } from '../places.ts'
import type { Launcher } from './launcher.ts'
import { startTimeOf } from './process-start-time.ts'

/** How long a shim may take to greet. It does nothing else first, so only a stuck machine takes this long. */
const GREETING_MS = 10_000

/** Resolves when the runner accepts connections. The shim outlives this process. */
export async function startShim(launcher: Launcher, task: object, sandboxId: string): Promise<void> {
  const failed = (message: string, cause?: unknown) =>
    new SandboxError('unavailable', `${NOT_STARTED}: ${message}`, {
      sandboxId,
      cause,
      hint: '`sandkasten doctor` shows what this machine lacks.',
    })
  const line = await launcher.start(task).catch((cause: Error) => {
    throw failed(cause.message, cause)
  })
  const fields = parseLine(line)
  if (typeof fields?.pid === 'number') return
  const message = typeof fields?.error === 'string' ? fields.error : 'the shim did not answer'
  const errno = typeof fields?.errno === 'number' ? fields.errno : 0
  const code = errnoName(errno)
  if (!ofTheDisk.includes(code)) throw failed(message)
  throw translate(Object.assign(new Error(message), { code }), `${NOT_STARTED} (${message})`)
}

/** Errors that a shim meets only in the data folder. */
const ofTheDisk = ['ENOSPC', 'EDQUOT', 'EROFS', 'EUCLEAN']

const NOT_STARTED = 'cannot start the sandbox'

/** The identity of a shim: pid and start time, because pids are reused. */
export interface ShimIdentity {
  readonly pid: number
  readonly startTime: number
  /** The name of its sandbox's control groups. */
  readonly group: string
}

/** A connection to a running shim. Unlike a pid, it cannot refer to another process later. */
export class Witness {
  readonly shim: ShimIdentity
  /** The exit report of the shim. Undefined if the connection closed before the report. Never rejects. */
  readonly told: Promise<SandboxEnd | undefined>
  private readonly socket: Socket
  private readonly replies: ((reply: Record<string, unknown> | undefined) => void)[] = []

  /** `rest` contains the bytes after the greeting. */
  private constructor(socket: Socket, shim: ShimIdentity, rest: string) {
    this.socket = socket
    this.shim = shim
    let text = rest
    let end: SandboxEnd | undefined
    const closed = new Promise<void>((resolve) => {
      const read = (chunk: string) => {
        const lines = `${text}${chunk}`.split('\n')
        text = lines.pop()!
        for (const line of lines) {
          const fields = parseLine(line)
          if (fields?.held !== undefined || fields?.error !== undefined) this.replies.shift()?.(fields)
          else end = parseEnd(line)
        }
      }
      read('')
      socket.on('data', read)
      socket.on('close', () => {
        for (const reply of this.replies.splice(0)) reply(undefined)
        resolve()
      })
    })
    // A shim closes its connections shortly before it has exited.
    this.told = closed.then(async () => {
      for (let tries = 0; this.lives() && tries < 1000; tries++) await (tries < 50 ? nextTurn() : sleep(1))
      return end
    })
    // Waiting for a sandbox to end does not keep this process alive.
    socket.unref()
  }

  /**
   * Resolves to undefined if no shim is alive there. The kernel accepts connections for a dying process, so a shim
   * proves that it is alive with a greeting line.
   */
  static open(path: string): Promise<Witness | undefined> {
    return new Promise((resolve, reject) => {
      const socket = connect(path)
      const failed = (message: string, cause?: unknown) => {
        socket.destroy()
        reject(new SandboxError('unavailable', `the sandbox's shim cannot be reached: ${message}`, { cause }))
      }
      const timer = setTimeout(() => failed(`no greeting in ${GREETING_MS} ms`), GREETING_MS)
      const gone = () => {
        clearTimeout(timer)
        resolve(undefined)
      }
      let text = ''
      const greeted = (chunk: string) => {
        text += chunk
        const end = text.indexOf('\n')
        if (end < 0) return
        clearTimeout(timer)
        socket.off('data', greeted)
        socket.off('close', gone)
        const shim = identityOf(parseLine(text))
        if (shim) resolve(new Witness(socket, shim, text.slice(end + 1)))
        else failed('its greeting is malformed')
      }
      socket.setEncoding('utf8')
      socket.on('data', greeted)
      socket.on('close', gone)
      socket.on('error', (cause: NodeJS.ErrnoException) => {
        // No shim, or it has just ended: `close` reports that. Any other error proves nothing.
        if (!['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(cause.code ?? ''))
          failed(cause.message, cause)
      })
    })
  }

  kill(): void {
    // From now on the connection keeps this process alive.
    this.socket.ref()
    this.socket.write('kill\n')
  }

  /** Resolves when all processes of the sandbox are frozen. If this process dies, the shim thaws them. */
  async hold(): Promise<void> {
    await this.ask('hold', 'frozen')
  }

  /** For machines without a freezer: the shim stops the processes with signals. */
  async freeze(frozen: boolean): Promise<void> {
    await this.ask(frozen ? 'freeze' : 'thaw', frozen ? 'frozen' : 'thawed')
  }

  private async ask(what: string, done: string): Promise<void> {
    const reply = await new Promise<Record<string, unknown> | undefined>((resolve) => {
      if (this.socket.destroyed) resolve(undefined)
      else {
        this.replies.push(resolve)
        this.socket.ref()
        this.socket.write(`${what}\n`)
      }
    }).finally(() => this.socket.unref())
    if (reply?.held === (done === 'frozen')) return
    const reason = typeof reply?.error === 'string' ? reply.error : 'the shim has exited'
    throw new SandboxError('unavailable', `the sandbox could not be ${done}: ${reason}`)
  }

  release(): void {
    if (!this.socket.destroyed) this.socket.write('release\n')
  }

  /** For a shim that does not answer: the kernel ends the sandbox with it. */
  killShim(): void {
    if (this.lives()) process.kill(this.shim.pid, 'SIGKILL')
  }

  private lives(): boolean {
    return startTimeOf(this.shim.pid) === this.shim.startTime
  }
}

/** The last shim that wrote its identity. A shim that ended normally has removed it. */
export function lastShim(places: Places): ShimIdentity | undefined {
  try {
    return identityOf(parseLine(readFileSync(places.state, 'utf8')))
  } catch {
    return undefined
  }
}

function identityOf(fields: Record<string, unknown> | undefined): ShimIdentity | undefined {
  const { pid, startTime, group } = fields ?? {}
  if (typeof pid !== 'number' || typeof startTime !== 'number' || typeof group !== 'string') return undefined
  return { pid, startTime, group }
}

/** How the last incarnation ended, if its shim recorded it. */
export function readEnd(places: Places): SandboxEnd | undefined {
  try {
    return parseEnd(readFileSync(places.end, 'utf8'))
  } catch {
    return undefined
  }
}

function parseEnd(text: string): SandboxEnd | undefined {
  const fields = parseLine(text)
  if (fields === undefined || fields.version !== 2) return undefined
  const number = (name: string) => (typeof fields[name] === 'number' ? (fields[name] as number) : undefined)
  const [exitCode, signal, oomKills] = [number('exit'), number('signal'), number('oomKills')]
  const [startedAt, endedAt] = [number('startedAt'), number('endedAt')]
  return {
    exitCode,
    signal,
    killed: fields.killed === true,
    oomKills,
    oom: oomKills === undefined ? undefined : oomKills > 0,
    startedAt: startedAt === undefined ? undefined : new Date(startedAt),
    endedAt: endedAt === undefined ? undefined : new Date(endedAt),
    unwitnessed: false,
    errors: typeof fields.errors === 'string' ? fields.errors : '',
  }
}

function parseLine(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.split('\n', 1)[0]!)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { SandboxEnd } from '../isolator.ts'
import type { Launcher } from './launcher.ts'
import type { Places } from './places.ts'

/** How long a shim may take to greet. It does nothing else meanwhile, so this is the time of a stuck machine. */
const GREETING_MS = 10_000

/** The shim's side of things, from here: starting one, finding one, hearing how its sandbox ended. */

/** Resolves when the runner accepts connections. The shim goes on without us. */
export async function startShim(
  launcher: Launcher,
  task: object,
  places: Places,
  sandboxId: string,
): Promise<void> {
  const failed = (message: string, cause?: unknown) =>
    new SandboxError('unavailable', `the sandbox could not be started: ${message}`, {
      sandboxId,
      cause,
      hint: '`sandkasten doctor` says what this machine lacks.',
    })
  const line = await launcher.start(JSON.stringify(task), places.log).catch((cause: Error) => {
    throw failed(cause.message, cause)
  })
  const fields = parseLine(line)
  if (typeof fields?.pid === 'number') return
  throw failed(
    typeof fields?.error === 'string' ? fields.error : `no answer from its shim; see ${places.log}`,
  )
}

/** A connection to a living shim. It names that very shim: a pid would be only a number, which is used again. */
export class Witness {
  /** The end as the shim told it; undefined when it was cut off before it could. Never rejects. */
  readonly told: Promise<SandboxEnd | undefined>
  /** The shim's process. A number is used again, so it comes with when that process started. */
  private readonly process: { readonly pid: unknown; readonly startTime: unknown }
  private readonly socket: Socket

  private constructor(socket: Socket, greeting: string, told: Promise<SandboxEnd | undefined>) {
    this.socket = socket
    const { pid, startTime } = parseLine(greeting) ?? {}
    this.process = { pid, startTime }
    // It closes its connections a moment before it has quite gone.
    this.told = told.then(async (end) => {
      for (let tries = 0; this.lives() && tries < 1000; tries++) await (tries < 50 ? nextTurn() : sleep(1))
      return end
    })
    // Waiting for a sandbox's end is no reason for a process to stay.
    socket.unref()
  }

  /**
   * Undefined when no shim lives there. The kernel accepts a connection for a process that is dying, so being connected proves nothing: a shim
   * greets with a line.
   */
  static open(path: string): Promise<Witness | undefined> {
    return new Promise((resolve, reject) => {
      const socket = connect(path)
      const failed = (message: string, cause?: unknown) => {
        socket.destroy()
        reject(new SandboxError('unavailable', `the sandbox's shim cannot be reached: ${message}`, { cause }))
      }
      const timer = setTimeout(() => failed(`no greeting in ${GREETING_MS} ms`), GREETING_MS)
      let text = ''
      const told = new Promise<SandboxEnd | undefined>((tell) => {
        socket.on('close', () => {
          // The second line; the first was the greeting.
          tell(parseEnd(text.split('\n')[1] ?? ''))
          clearTimeout(timer)
          resolve(undefined)
        })
      })
      socket.setEncoding('utf8')
      socket.on('data', (chunk: string) => {
        text += chunk
        if (!text.includes('\n')) return
        clearTimeout(timer)
        resolve(new Witness(socket, text, told))
      })
      socket.on('error', (cause: NodeJS.ErrnoException) => {
        // Nobody there, or gone while we came: `close` says so. Anything else is no knowledge at all.
        if (!['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(cause.code ?? ''))
          failed(cause.message, cause)
      })
    })
  }

  kill(): void {
    // From now on somebody waits.
    this.socket.ref()
    this.socket.write('kill\n')
  }

  /** For one that does not answer: its end is the sandbox's end, by the kernel's hand. */
  killShim(): void {
    if (this.lives()) process.kill(this.process.pid as number, 'SIGKILL')
  }

  private lives(): boolean {
    const { pid, startTime } = this.process
    return typeof pid === 'number' && startTime !== undefined && startTimeOf(pid) === startTime
  }
}

/** How the last life ended, if a shim wrote it down. */
export function readEnd(places: Places): SandboxEnd | undefined {
  try {
    return parseEnd(readFileSync(places.end, 'utf8'))
  } catch {
    return undefined
  }
}

/** In ticks since boot; undefined when there is no such process, or only its remains. */
function startTimeOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19])
  } catch {
    return undefined
  }
}

function parseEnd(text: string): SandboxEnd | undefined {
  const fields = parseLine(text)
  if (fields === undefined || fields.version !== 1) return undefined
  const number = (name: string) => (typeof fields[name] === 'number' ? (fields[name] as number) : undefined)
  const [exitCode, signal, oomKills] = [number('exit'), number('signal'), number('oomKills')]
  const [startedAt, endedAt] = [number('startedAt'), number('endedAt')]
  return {
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(signal === undefined ? {} : { signal }),
    killed: fields.killed === true,
    ...(oomKills === undefined ? {} : { oomKills, oom: oomKills > 0 }),
    ...(startedAt === undefined ? {} : { startedAt: new Date(startedAt) }),
    ...(endedAt === undefined ? {} : { endedAt: new Date(endedAt) }),
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

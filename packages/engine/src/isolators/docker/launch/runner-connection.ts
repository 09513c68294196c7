import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Container } from 'dockerode'
import { GATEWAY_RESOLVER, type SandboxPlace } from '../../isolator.ts'
import { COPIED_RUNNER, SOCKET_FOLDER, SOCKET_NAME } from '../config.ts'
import { ExecStream } from './attached-stream.ts'

/** A connection to the runner, through a shared folder or through the daemon. */
export interface RunnerConnection {
  /** Resolves when the runner accepts connections. */
  ready(signal: AbortSignal): Promise<void>
  connect(): Promise<Duplex>
  /** Removes its files on this machine. */
  remove(): void
}

/** Missing in Node's constants. The same on x86-64 and arm64. */
const O_PATH = 0o10000000
const MAX_SOCKET_PATH = 107

/** Connects through a socket in a folder that the runner and the engine share. */
export class SocketConnection implements RunnerConnection {
  readonly folder: string
  readonly run: string
  /** For a container with a policy: its resolver is the gateway. */
  readonly resolvConf: string
  private readonly socket: string

  constructor({ sandboxId }: SandboxPlace, runFolder: string) {
    this.run = join(runFolder, sandboxId)
    this.folder = join(this.run, 'io')
    this.resolvConf = join(this.run, 'resolv.conf')
    this.socket = join(this.folder, SOCKET_NAME)
    if (Buffer.byteLength(this.socket) > MAX_SOCKET_PATH)
      throw new SandboxError('invalid_argument', `runFolder: ${runFolder} is too long for a socket in it`)
  }

  /** Creates a folder for each incarnation, accessible only to the runner's user. */
  prepare(rootId: number): void {
    rmSync(this.run, { recursive: true, force: true })
    mkdirSync(this.run, { recursive: true, mode: 0o711 })
    mkdirSync(this.folder, { mode: 0o700 })
    writeFileSync(this.resolvConf, `nameserver ${GATEWAY_RESOLVER}\n`)
    // Every user inside reads it, whatever our umask is.
    chmodSync(this.resolvConf, 0o644)
    if (rootId !== 0) chownSync(this.folder, rootId, rootId)
  }

  /** The runner gives the socket its name only when it listens. */
  async ready(signal: AbortSignal): Promise<void> {
    const seen = Promise.withResolvers<void>()
    const watcher = watch(this.folder, () => existsSync(this.socket) && seen.resolve())
    const stop = () => seen.reject(signal.reason)
    watcher.on('error', seen.reject)
    signal.addEventListener('abort', stop, { once: true })
    try {
      // Check after the watch has started, so that no event is missed.
      if (!existsSync(this.socket)) await seen.promise
    } finally {
      signal.removeEventListener('abort', stop)
      watcher.close()
    }
  }

  /**
   * The sandbox's root can write to this folder, and we may be root: a link in place of the socket could lead to any
   * socket of this machine. So it is opened without following links, must be a socket, and is connected through that
   * descriptor.
   */
  async connect(): Promise<Duplex> {
    const fd = openSync(this.socket, O_PATH | constants.O_NOFOLLOW)
    try {
      if (!fstatSync(fd).isSocket())
        throw new Error('the file in place of the runner’s socket is not a socket')
      const socket = connect(`/proc/self/fd/${fd}`)
      return await new Promise<Duplex>((resolve, reject) => {
        socket.once('connect', () => resolve(socket))
        socket.once('error', reject)
      })
    } finally {
      closeSync(fd)
    }
  }

  remove(): void {
    rmSync(this.run, { recursive: true, force: true })
  }
}

/** Connects through the daemon: `runner bridge` as an exec, whose standard streams are the connection. */
export class BridgeConnection implements RunnerConnection {
  private readonly container: Container

  constructor(container: Container) {
    this.container = container
  }

  /** Retries until the runner answers. Starting the exec takes longer than starting the runner. */
  async ready(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted()
      const stream = await this.connect()
      if (await holds(stream)) return
      await sleep(20, undefined, { signal })
    }
  }

  async connect(): Promise<ExecStream> {
    const exec = await this.container.exec({
      Cmd: [COPIED_RUNNER, 'bridge', '--socket', `${SOCKET_FOLDER}/${SOCKET_NAME}`],
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: false,
      User: '0:0',
    })
    return new ExecStream(await exec.start({ hijack: true, stdin: true, Tty: false, Detach: false }))
  }

  remove(): void {}
}

/** A bridge that finds no socket exits at once with an error. A bridge that stays until its input ends has found it. */
function holds(stream: ExecStream): Promise<boolean> {
  return new Promise((resolve) => {
    stream.once('error', () => resolve(false))
    stream.once('close', () => resolve(stream.errors === ''))
    stream.once('end', () => {
      resolve(stream.errors === '')
      stream.destroy()
    })
    stream.resume()
    // When the input ends, the runner closes the connection and the bridge exits.
    stream.end()
  })
}

/** Real sandboxes of any isolator, for tests that try to get out of them. */
import { readFileSync } from 'node:fs'
import { RunnerClient, type RunOptions } from '@sandkasten/runner-client'
import type { IsolatedSandbox, IsolatorSpec, Limits } from '../isolator.ts'
import type { SharedResource } from './kernel-resources.ts'

export interface Cage extends AsyncDisposable {
  readonly traits: Traits
  /** For the test's own files on the host. */
  readonly folder: string
  /** The devices that whatever makes sandboxes could give away; the host's own unless said otherwise. */
  readonly dev?: string
  start(changes?: SpecChanges): Promise<Captive>
  /** Removes it for good, and says what is left of it. */
  remove(captive: Captive): Promise<string[]>
}

/** The differences between the walls of isolators. Everything else must hold on all of them. */
export interface Traits {
  /**
   * `own`: each sandbox has ids of its own. `common`: all sandboxes share ids. `machine`: root inside is root outside,
   * without its capabilities. `account`: the only user is 1000, which is the account that the engine runs as.
   */
  readonly ids: 'own' | 'common' | 'machine' | 'account'
  /** What is in `/` besides the usual folders. */
  readonly entries: readonly string[]
  /** What is in /dev besides the usual. */
  readonly devices: readonly string[]
  /** A refused system call fails with the errno of our own table; elsewhere it is enough that it fails. */
  readonly exactErrno: boolean
  /** Whoever calls by x32's numbers is ended, instead of being told that there is no such call. */
  readonly x32Ends?: boolean
  /** The runner's socket was made outside and has no name inside, or it has one that only its root may use. */
  readonly socket: 'unnamed' | 'named'
  /** How things are mounted is a daemon's choice: there, that setuid gives nothing and no device can be made is up to no-new-privileges and capabilities alone. */
  readonly daemonMounts?: boolean
  /** Another kernel than the host's is below it: what that one says of itself is its own affair. */
  readonly ownKernel?: boolean
  /** What one of its sandboxes can take from the others, and from the account that the engine runs as. */
  readonly shared?: {
    readonly neighbours: readonly SharedResource[]
    readonly host: readonly SharedResource[]
  }
  /** Files of /proc can be written to, by their owner. */
  readonly writableProc?: boolean
  /** It is always known whether the kernel has killed for lack of memory. */
  readonly countsOom: boolean
}

export type SpecChanges = Partial<Omit<IsolatorSpec, 'limits'>> & { limits?: Partial<Limits> }

export interface Captive extends Talk {
  readonly spec: IsolatorSpec
  readonly sandbox: IsolatedSandbox
  /** The host's numbers. */
  readonly runnerPid: number
  readonly outsiders: readonly number[]
  /** The first id of its range. */
  readonly firstId: number
  /** The host's number of an id inside; where it is not simply counted from the first. */
  hostId?(inside: number): number
  /** The runner's socket, on the host. */
  readonly socket: string
  /** What the isolator has written down about it, on the host. */
  readonly notes: readonly string[]
}

export interface Talk {
  readonly client: RunnerClient
  /** As the sandbox's user unless `user` says otherwise. Output is trimmed. */
  sh(script: string, options?: Partial<RunOptions>): Promise<Said>
}

export interface Said {
  out: string
  err: string
  code: number | undefined
  signal: string | undefined
}

const MiB = 1024 * 1024

export function specFor(sandboxId: string, folder: string, changes: SpecChanges = {}): IsolatorSpec {
  return {
    sandboxId,
    folder,
    image: 'host',
    env: {},
    mounts: [],
    network: 'none',
    workdir: '/workspace',
    hostname: 'box',
    ...changes,
    limits: {
      memoryBytes: 256 * MiB,
      pids: 128,
      cpus: 2,
      tmpBytes: 64 * MiB,
      shmBytes: 16 * MiB,
      openFiles: 4096,
      ...changes.limits,
    },
  }
}

export async function talkTo(sandbox: IsolatedSandbox): Promise<Talk> {
  const client = await RunnerClient.connect(await sandbox.connect())
  let commands = 0
  return {
    client,
    async sh(script, options = {}) {
      commands += 1
      const id = `${process.pid}-${performance.now()}-${commands}`
      const result = await client.run({ id, argv: ['/bin/sh', '-c', script], ...options })
      const text = (bytes: Buffer) => bytes.toString('utf8').trim()
      return {
        out: text(result.stdout),
        err: text(result.stderr),
        code: result.exitCode,
        signal: result.signal,
      }
    },
  }
}

export function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** Real sandboxes of any isolator, for tests that try to escape from them. */
import { readFileSync } from 'node:fs'
import { RunnerClient, type RunOptions } from '@sandkasten/runner-client'
import type { IsolatedSandbox, IsolatorSpec, Limits } from '../isolator.ts'
import type { SharedResource } from './kernel-resources.ts'

export interface Cage extends AsyncDisposable {
  readonly traits: Traits
  /** For the test's own files on the host. */
  readonly folder: string
  /** The devices that the isolator could pass to a sandbox. Default: the host's. */
  readonly dev?: string
  start(changes?: SpecChanges): Promise<Captive>
  /** Removes the sandbox and returns its leftovers. */
  remove(captive: Captive): Promise<string[]>
}

/** The accepted differences between isolators. Every other test must pass on all of them. */
export interface Traits {
  /**
   * `own`: each sandbox has ids of its own. `common`: all sandboxes share ids. `machine`: root inside is root outside,
   * without its capabilities. `account`: the only user is 1000, which is the account that the engine runs as.
   */
  readonly ids: 'own' | 'common' | 'machine' | 'account'
  /** Commands run as root of the sandbox. */
  readonly asRoot?: boolean
  /** Additional entries of `/`. */
  readonly entries: readonly string[]
  /** Additional entries of /dev. */
  readonly devices: readonly string[]
  /** A refused system call fails with the errno of our own table. Otherwise any failure is accepted. */
  readonly exactErrno: boolean
  /** A call with an x32 number kills the process instead of failing with ENOSYS. */
  readonly x32Ends?: boolean
  /** The runner's socket has no name inside, or a name that only the sandbox's root may use. */
  readonly socket: 'unnamed' | 'named'
  /** A daemon chooses the mount options, so only no-new-privileges and capabilities block setuid and device nodes. */
  readonly daemonMounts?: boolean
  /** The sandbox has its own kernel, so information about that kernel is not a leak. */
  readonly ownKernel?: boolean
  /** Resources that one sandbox can exhaust for other sandboxes and for the engine's account. */
  readonly shared?: {
    readonly neighbours: readonly SharedResource[]
    readonly host: readonly SharedResource[]
  }
  /** Owners can write to their files in /proc. */
  readonly writableProc?: boolean
  /** Out-of-memory kills are always counted. */
  readonly countsOom: boolean
}

export type SpecChanges = Partial<Omit<IsolatorSpec, 'limits'>> & { limits?: Partial<Limits> }

export interface Captive extends Talk {
  readonly spec: IsolatorSpec
  readonly sandbox: IsolatedSandbox
  /** Pids on the host. */
  readonly runnerPid: number
  readonly outsiders: readonly number[]
  /** The first id of its range. */
  readonly firstId: number
  /** Maps an id inside to its id on the host, if the mapping is not a plain offset. */
  hostId?(inside: number): number
  /** The runner's socket, on the host. */
  readonly socket: string
  /** The isolator's files about the sandbox, on the host. */
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

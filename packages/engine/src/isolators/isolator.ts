import type { Duplex } from 'node:stream'
import type { Isolation } from '@sandkasten/sdk'

/**
 * An isolator turns a spec into a running sandbox with a byte stream to the runner inside. That is all the engine asks of `process`, `oci`,
 * `docker` and `kubernetes`; commands, shells, files and ports are the runner's business, the same everywhere.
 */
export interface Isolator {
  readonly name: string
  readonly isolation: Isolation
  /** Where it makes a folder for each sandbox that runs. */
  readonly runFolders?: readonly string[]
  /** Does it work here, now? Looks, changes nothing that lasts. */
  probe(): Promise<ProbeResult>
  /** Resolves when the runner accepts connections. Starting again what has ended, in the same folder, finds its disk as it was. */
  start(spec: IsolatorSpec): Promise<IsolatedSandbox>
  /** The sandbox that an earlier process started and that still runs; undefined when it does not run any more. */
  attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined>
  /** How the last life of a sandbox that does not run ended; undefined when nobody knows. */
  lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined>
  /** Gives up what outlives a stop: disk and ids, and whatever a crash left behind. Kills what still runs. False when there was nothing. */
  remove(place: SandboxPlace): Promise<boolean>
  /** Gives up what it keeps for the next start; it may start again all the same. Sandboxes go on. */
  close(): Promise<void>
  /** Gives up what is kept for sandboxes whose folders, somewhere below this one, are gone: left by processes that were killed. */
  sweep?(below: string): Promise<void>
  /** Where a disk is a folder over read-only layers. */
  readonly disks?: LayeredDisks
  /** What is weaker in its sandboxes than it could be, in sentences for people. */
  weaker?(): Promise<readonly string[]>
  /** Where images are not ours to keep: whether this one is here. */
  hasImage?(reference: string): Promise<boolean>
  /** Keeps the disk of a sandbox as it is at this moment, running or not, as an image `{ snapshot }` that others are made of. */
  snapshot?(place: SandboxPlace, snapshotId: string): Promise<{ sizeBytes?: number }>
  /** `in-use`: a sandbox was made of it and is still there. */
  removeSnapshot?(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'>
}

/** For whoever keeps disks as layers. What is in them is hostile: it is moved, copied and removed as a whole, never looked into by path. */
export interface LayeredDisks {
  /** What a sandbox that does not run has written. */
  upperOf(spec: IsolatorSpec): Upper
  /** What lies below everything that sandboxes have written. */
  lowerFoldersOf(spec: IsolatorSpec): readonly string[]
}

/** With the owners that the sandbox sees. Not there: nothing yet. */
export type Upper =
  | { readonly folder: string }
  /** A file with a file system in it, which has the folder `upper`. */
  | { readonly file: string }

export type ProbeResult =
  | {
      readonly ok: true
      readonly detail: string
      /** What is weaker here than it could be, and what to do about it. */
      readonly weaker?: readonly string[]
      readonly better?: readonly string[]
    }
  | { readonly ok: false; readonly reason: string; readonly fix: string }

/** Where a sandbox is: enough to find it again. */
export interface SandboxPlace {
  readonly sandboxId: string
  /** The sandbox's own folder on the host, which the isolator fills. Its disk is kept there while it is stopped. */
  readonly folder: string
}

export interface IsolatorSpec extends SandboxPlace {
  readonly image: Image
  /** What other sandboxes have written, as folders, uppermost first: above the image and below this sandbox's own disk. */
  readonly layers?: readonly string[]
  /** For every command, and readable by all of them. */
  readonly env: Readonly<Record<string, string>>
  readonly limits: Limits
  /** Folders or files of the host. */
  readonly mounts: readonly HostMount[]
  readonly network: 'none' | 'open'
  /** Made, and given to the sandbox's user, when the disk is new. */
  readonly workdir: string
  readonly hostname: string
  /** What the sandbox's user is called, with a home below `/home`. On the image `host` only, and on disks that stand on it. */
  readonly account?: string
}

/**
 * The machine's own programs, a folder with a root file system in it, an image of the store, an image that the isolator's daemon knows by this name,
 * or a snapshot that the isolator has made of a sandbox whose own image was `of`.
 */
export type Image =
  | 'host'
  | { readonly rootfs: string }
  | StoredImage
  | { readonly reference: string }
  | { readonly snapshot: string; readonly of: Image }

/** An image whose layers are folders of this machine, uppermost first. The sandbox's working folder and its user's home are in them. */
export interface StoredImage {
  readonly name: string
  readonly digest: string
  readonly layers: readonly string[]
  /** Below what the spec says. */
  readonly env: Readonly<Record<string, string>>
  /** Who commands run as, inside. Never 0: that is the runner. */
  readonly user: { readonly uid: number; readonly gid: number }
}

export function storedImage(image: Image): StoredImage | undefined {
  return image !== 'host' && 'layers' in image ? image : undefined
}

export interface Limits {
  readonly memoryBytes: number
  /** Processes and threads. */
  readonly pids: number
  /** 0.5 is half of one processor. */
  readonly cpus: number
  readonly tmpBytes: number
  readonly shmBytes: number
  /** Per process. */
  readonly openFiles: number
  /** Of everything that the sandbox writes to its disk; without one it may fill the host's. */
  readonly diskBytes?: number
}

export interface HostMount {
  readonly source: string
  readonly target: string
  /** Unless this is false. What is written then has the owners that the sandbox sees. */
  readonly readOnly?: boolean
  /** The sandbox's user acts as the owner of `source`: it may do what the owner may, and what it writes belongs to that owner. */
  readonly asOwner?: boolean
  /** `source` has no symbolic link in it. One that is there at a start was put there since, so the start is refused. */
  readonly exact?: boolean
}

/** Whether the sandbox writes files that belong to users of the host. */
export function writesToHost({ mounts }: Pick<IsolatorSpec, 'mounts'>): boolean {
  return mounts.some(({ readOnly, asOwner }) => readOnly === false && asOwner === true)
}

/** A running sandbox. Several processes may hold the same one. */
export interface IsolatedSandbox extends SandboxPlace {
  /** A new connection to the runner. What comes over it is hostile input, and a chunk of it is valid only until its `data` event returns. */
  connect(): Promise<Duplex>
  /** Resolves, never rejects, when the sandbox has ended and nothing of it runs any more. */
  readonly ended: Promise<SandboxEnd>
  stats(): Promise<SandboxStats>
  /** Of the stats, the one that is wanted before every command; undefined where it is not counted. */
  oomKills(): Promise<number | undefined>
  /** Resolves when no process in it runs. It stays so until somebody thaws it. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** The same for a moment: until what it resolves to is called, or this process ends, however it ends. One that was frozen before stays so. */
  hold(): Promise<() => void>
  /** What it has written, as a folder that can be read while it is held. Undefined where disks are not layers. */
  readonly upper?: string
  /** Resolves when no process, mount or control group of it is left. Its disk stays. */
  kill(): Promise<SandboxEnd>
}

/** What a witness saw; what nobody saw is undefined. */
export interface SandboxEnd {
  /** Of the sandbox's first process. */
  readonly exitCode?: number
  readonly signal?: number
  /** Somebody asked for this end. */
  readonly killed: boolean
  /** The kernel killed at least one process of this sandbox because its memory limit was reached: the kernel's count, not a guess. */
  readonly oom?: boolean
  readonly oomKills?: number
  readonly startedAt?: Date
  readonly endedAt?: Date
  /** The witness itself was killed, so how the sandbox ended is not known; it did end with it. */
  readonly unwitnessed: boolean
  /** The beginning of what the first process wrote as errors. */
  readonly errors: string
}

/** Facts of this moment; what this machine does not count is undefined. */
export interface SandboxStats {
  readonly memoryBytes?: number
  readonly memoryLimitBytes?: number
  readonly pids?: number
  readonly cpuUsec?: number
  /** Time that the processes wanted a processor and the limit said no. */
  readonly throttledUsec?: number
  readonly oomKills?: number
  /** How often starting a process failed because of the limit. */
  readonly pidsRefused?: number
}

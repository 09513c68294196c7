import type { Duplex } from 'node:stream'
import type { Isolation } from '@sandkasten/sdk'
import type { Programs } from '@sandkasten/sdk/provider'

/**
 * An isolator turns a spec into a running sandbox with a byte stream to the runner inside. Commands, shells, files
 * and ports are the runner's job and the same on every isolator.
 */
export interface Isolator {
  readonly name: string
  readonly isolation: Isolation
  /** Folders in which the isolator creates a folder for each running sandbox. */
  readonly runFolders?: readonly string[]
  /** Checks whether the isolator works on this machine. Leaves no changes behind. */
  probe(): Promise<ProbeResult>
  /** Resolves when the runner accepts connections. A second start in the same folder finds the disk unchanged. */
  start(spec: IsolatorSpec): Promise<IsolatedSandbox>
  /** Returns the running sandbox, also if another process started it. Undefined if it does not run. */
  attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined>
  /** How the last incarnation of a stopped sandbox ended. Undefined if it is not known. */
  lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined>
  /** Removes disk, ids and the remains of crashes. Kills running processes. Resolves to false if there was nothing. */
  remove(place: SandboxPlace): Promise<boolean>
  /** Releases resources that are prepared for the next start. The isolator stays usable, and sandboxes keep running. */
  close(): Promise<void>
  /** Releases resources of sandboxes whose folders below this one are gone because their process was killed. */
  sweep?(below: string): Promise<void>
  /** Present if a disk is a folder over read-only layers. */
  readonly disks?: LayeredDisks
  /** How its sandboxes are weaker than they could be, in sentences for users. */
  weaker?(): Promise<readonly string[]>
  /** Whether the isolator's daemon has this image. Absent if the engine's own store keeps images. */
  hasImage?(reference: string): Promise<boolean>
  /** Images of the isolator's daemon that state the versions of their programs. */
  programs?(): Promise<Array<{ image: string; programs: Programs }>>
  /** Keeps the current disk of a sandbox, running or not, as an image `{ snapshot }` for new sandboxes. */
  snapshot?(place: SandboxPlace, snapshotId: string): Promise<{ sizeBytes?: number }>
  /** Returns `in-use` if a sandbox that was created from the snapshot still exists. */
  removeSnapshot?(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'>
}

/**
 * For the code that keeps disks as layers. The content is hostile: move, copy and remove it as a whole, never open it
 * by path.
 */
export interface LayeredDisks {
  /** The writable side of a stopped sandbox's disk. */
  upperOf(spec: IsolatorSpec): Upper
  /** The folders below all disks of sandboxes: the image. */
  lowerFoldersOf(spec: IsolatorSpec): Promise<readonly string[]>
}

/** Files have the owners that the sandbox sees. The path does not exist before the first start. */
export type Upper =
  | { readonly folder: string }
  /** A file with a file system in it, which has the folder `upper`. */
  | { readonly file: string }

export type ProbeResult =
  | {
      readonly ok: true
      readonly detail: string
      /** How sandboxes are weaker here than they could be, and how to change that. */
      readonly weaker?: readonly string[]
      readonly better?: readonly string[]
    }
  | { readonly ok: false; readonly reason: string; readonly fix: string }

/** Identifies a sandbox, also for a new process. */
export interface SandboxPlace {
  readonly sandboxId: string
  /** The sandbox's own folder on the host, which the isolator fills. Its disk is kept there while it is stopped. */
  readonly folder: string
}

export interface IsolatorSpec extends SandboxPlace {
  readonly image: Image
  /**
   * Disks of other sandboxes as folders, uppermost first. They lie above the image and below this sandbox's own disk.
   */
  readonly layers?: readonly string[]
  /** Set for every command, so every command can read it. */
  readonly env: Readonly<Record<string, string>>
  readonly limits: Limits
  /** Folders or files of the host. */
  readonly mounts: readonly HostMount[]
  /** A folder of the host that the sandbox sees read-only as `READ_ONLY_FILES`. The host adds files while it runs. */
  readonly readOnlyFiles?: string
  readonly network: SandboxNetwork
  /** The sandbox trusts this certificate authority (PEM) besides those of its image; see `trust.ts`. */
  readonly authority?: string | undefined
  /** Made, and given to the sandbox's user, when the disk is new. */
  readonly workdir: string
  readonly hostname: string
  /**
   * Commands run as root of the sandbox, which is an unprivileged id on the host. Otherwise as its ordinary user.
   */
  readonly user?: 'root'
  /** The name of the sandbox's user, with a home below `/home`. For the image `host` and snapshots of it only. */
  readonly account?: string
}

/** Loopback only; what `openNetwork` allows; or what a gateway allows that serves the sandbox's sockets. */
export type SandboxNetwork = 'none' | 'open' | { readonly policy: GatewaySocket }

/**
 * Where the gateway gets the sockets of the sandbox's network (`protocol/egress.md`). The socket exists while the
 * sandbox runs. Without a gateway, connections wait or fail.
 */
export interface GatewaySocket {
  /**
   * An absolute path of at most 107 bytes, in an existing folder to which only the engine can write. No sandbox sees
   * it.
   */
  readonly socket: string
  /** The gateway's user. Default: the engine's. Only an engine that runs as root can name another. */
  readonly owner?: { readonly uid: number; readonly gid: number }
}

/** Where a sandbox sees its folder `readOnlyFiles`. In memory, so that its disk and snapshots do not contain it. */
export const READ_ONLY_FILES = '/run/sandkasten-files'

/** The address at which the gateway answers DNS in every sandbox with a policy. */
export const GATEWAY_RESOLVER = '192.0.0.3'

export function gatewaySocket({ network }: Pick<IsolatorSpec, 'network'>): GatewaySocket | undefined {
  return typeof network === 'object' ? network.policy : undefined
}

/**
 * The machine's own programs (`host`), a folder with a root file system, an image of the store, an image of the
 * isolator's daemon by its name, or a snapshot. The sandbox of a snapshot had the image `of`.
 */
export type Image =
  | 'host'
  | { readonly rootfs: string }
  | StoredImage
  | { readonly reference: string }
  | { readonly snapshot: string; readonly of: Image }

/**
 * An image whose layers are folders of this machine, uppermost first. They contain the working folder and the user's
 * home.
 */
export interface StoredImage {
  readonly name: string
  readonly digest: string
  readonly layers: readonly string[]
  /** Defaults; the spec's variables win. */
  readonly env: Readonly<Record<string, string>>
  /** The user of commands inside. Never 0, which is the runner. */
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
  /** The size of a `/tmp` in memory. Without it, `/tmp` is a folder of the sandbox's disk. */
  readonly tmpBytes?: number
  readonly shmBytes: number
  /** Per process. */
  readonly openFiles: number
  /** Limits the sandbox's whole disk. Without it the sandbox may fill the host's disk. */
  readonly diskBytes?: number
}

export interface HostMount {
  readonly source: string
  readonly target: string
  /** Default true. If false, files that the sandbox writes have the owners that the sandbox sees. */
  readonly readOnly?: boolean
  /** The sandbox's user acts as the owner of `source`: it has the owner's access, and its files belong to the owner. */
  readonly asOwner?: boolean
  /** Its files have the owners that sandboxes see: a volume, not a folder of a user of the host. */
  readonly ofSandboxes?: boolean
  /** `source` contains no symbolic link. A link that appears later makes the start fail. */
  readonly exact?: boolean
  /** `source` is a file that contains an ext4 file system, and its folder `data` is mounted. Sandboxes share it. */
  readonly fileSystem?: boolean
}

/** Whether the sandbox writes files that belong to users of the host. */
export function writesToHost({ mounts }: Pick<IsolatorSpec, 'mounts'>): boolean {
  return mounts.some(({ readOnly, asOwner }) => readOnly === false && asOwner === true)
}

/** A running sandbox. Several processes may hold the same one. */
export interface IsolatedSandbox extends SandboxPlace {
  /**
   * A new connection to the runner. Its bytes are hostile, and a chunk is valid only until its `data` event returns.
   */
  connect(): Promise<Duplex>
  /** Resolves, never rejects, when the sandbox has ended and nothing of it runs any more. */
  readonly ended: Promise<SandboxEnd>
  stats(): Promise<SandboxStats>
  /** Like `stats().oomKills`, but cheap: it is read before every command. Undefined where it is not counted. */
  oomKills(): Promise<number | undefined>
  /** Resolves when no process in it runs. It stays frozen until `thaw`. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /**
   * Freezes it until the returned function is called or this process ends. A sandbox that was frozen before stays
   * frozen.
   */
  hold(): Promise<() => void>
  /** The writable side of its disk, which can be read while it is held. Undefined where disks are not layers. */
  readonly upper?: string
  /** Resolves when no process, mount or control group of it is left. Its disk stays. */
  kill(): Promise<SandboxEnd>
}

/** How a sandbox ended. A fact that was not observed is undefined. */
export interface SandboxEnd {
  /** The exit code of the sandbox's first process. */
  readonly exitCode?: number
  readonly signal?: number
  /** The end was requested. */
  readonly killed: boolean
  /** The kernel killed at least one process of this sandbox at its memory limit. From the kernel's counter. */
  readonly oom?: boolean
  readonly oomKills?: number
  readonly startedAt?: Date
  readonly endedAt?: Date
  /** The shim was killed, so the sandbox ended with it and its exit status is unknown. */
  readonly unwitnessed: boolean
  /** The beginning of the first process's stderr. */
  readonly errors: string
}

/** Current values. A value that this machine does not count is undefined. */
export interface SandboxStats {
  readonly memoryBytes?: number
  readonly memoryLimitBytes?: number
  readonly pids?: number
  readonly cpuUsec?: number
  /** Time that processes were ready to run but over the CPU limit. */
  readonly throttledUsec?: number
  readonly oomKills?: number
  /** How often starting a process failed because of the limit. */
  readonly pidsRefused?: number
}

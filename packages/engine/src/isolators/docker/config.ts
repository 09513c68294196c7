import type { ContainerCreateOptions, MountSettings } from 'dockerode'
import type { HiddenPath } from '../../images/host/hidden.ts'
import { environmentOf } from '../environment.ts'
import type { Image, IsolatorSpec } from '../isolator.ts'
import { limitArguments, sharedLimits } from '../oci/limits/kernel-limits.ts'
import type { Labels } from './daemon/labels.ts'

/**
 * The sandbox as a container. It defines the same isolation as `oci` (`../oci/config.ts`, which also explains the ids
 * inside), as far as the Engine API can express it.
 *
 * It cannot express an id range for each sandbox. Unless the daemon remaps its users, the runner is the machine's
 * root with three capabilities, and the sandbox's user is the machine's user 1000.
 */
export interface ContainerInput {
  readonly spec: IsolatorSpec
  readonly image: string
  readonly labels: Labels
  readonly reach: Reach
  /** Folders of this machine that belong to the image. */
  readonly binds: readonly { readonly source: string; readonly target: string }[]
  /** Paths of the image that are covered. */
  readonly hidden: readonly HiddenPath[]
  /** The value of `seccomp=`: the profile itself, or for Podman the name of a file with it. */
  readonly seccomp: string
  readonly kind: 'docker' | 'podman'
  readonly userns?: string
  readonly network: string
  readonly cgroupParent?: string
  readonly runtime?: string
  readonly maxOpenFiles?: number
  readonly maxProcesses?: number
}

/** How the engine reaches the runner: by its socket in a shared folder, or through an exec. */
export type Reach =
  | {
      readonly how: 'socket'
      readonly runner: string
      readonly folder: string
      readonly chown: boolean
      /** A file to show as `/etc/resolv.conf`. */
      readonly resolvConf?: string | undefined
    }
  | { readonly how: 'bridge' }

/** A path inside. Not below /run: files are copied to the container's disk, and /run is mounted over it. */
export const COPIED_RUNNER = '/.sandkasten/runner'
export const MOUNTED_RUNNER = '/run/sandkasten-runner'
export const SOCKET_FOLDER = '/run/sandkasten'
export const SOCKET_NAME = 'runner.sock'
export const RESOLV_CONF = '/etc/resolv.conf'
export const SANDBOX_USER = 1000

export const RUNNER_CAPABILITIES = ['KILL', 'SETGID', 'SETUID']
/** The runner briefly opens descriptors above 512 when it starts a command. */
const MIN_OPEN_FILES = 1024

export function containerConfig(input: ContainerInput): ContainerCreateOptions {
  const { spec, reach } = input
  const { limits } = spec
  const runner = reach.how === 'socket' ? MOUNTED_RUNNER : COPIED_RUNNER
  const openFiles = Math.min(Math.max(limits.openFiles, MIN_OPEN_FILES), input.maxOpenFiles ?? 1024 * 1024)
  const bytes = Math.floor(limits.memoryBytes)
  const masked = [...MASKED, ...input.hidden.map(({ path }) => path)]
  return {
    Image: input.image,
    Labels: { ...input.labels },
    Hostname: spec.hostname,
    // PID 1 is the runner; the image's own program, user and directory have no effect.
    Entrypoint: [
      ...[runner, 'serve', '--socket', `${SOCKET_FOLDER}/${SOCKET_NAME}`],
      ...['--user', `${SANDBOX_USER}:${SANDBOX_USER}`, '--cwd', spec.workdir],
      ...limitArguments(sharedLimits),
    ],
    Cmd: [],
    User: '0:0',
    WorkingDir: '/',
    Env: environmentOf([spec.env], { imageSetsPath: !ofHost(spec.image) }),
    // Set only for images that may have a health check, because Podman starts a timer for it.
    Healthcheck: ofHost(spec.image) ? undefined : { Test: ['NONE'] },
    StopSignal: 'SIGKILL',
    StopTimeout: 0,
    // An empty pipe. Without it Podman's runtime gives the machine's own /dev/null to the container's root as
    // standard input.
    OpenStdin: true,
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    HostConfig: {
      CapDrop: ['ALL'],
      CapAdd: RUNNER_CAPABILITIES,
      Privileged: false,
      SecurityOpt: [
        'no-new-privileges',
        `seccomp=${input.seccomp}`,
        ...(input.kind === 'podman' ? [`mask=${masked.join(':')}`] : []),
      ],
      MaskedPaths: masked,
      // All of /proc, so that a process cannot lower its `oom_score_adj` to survive when memory runs out.
      ReadonlyPaths: ['/proc'],
      NetworkMode: spec.network === 'open' ? input.network : 'none',
      IpcMode: 'private',
      ...({ CgroupnsMode: 'private' } as object),
      UsernsMode: input.userns,
      // The sandbox has its own network namespace, so its user may serve on port 80.
      Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
      Memory: bytes,
      // Memory and swap together: no swap.
      MemorySwap: bytes,
      PidsLimit: limits.pids,
      NanoCpus: Math.round(limits.cpus * 1e9),
      OomScoreAdj: 500,
      ShmSize: Math.floor(limits.shmBytes),
      Ulimits: [
        { Name: 'nofile', Soft: openFiles, Hard: openFiles },
        { Name: 'core', Soft: 0, Hard: 0 },
        // Without a value, Podman tries to raise limits and may fail. PidsLimit is the effective limit.
        ...(input.maxProcesses === undefined
          ? []
          : [{ Name: 'nproc', Soft: input.maxProcesses, Hard: input.maxProcesses }]),
      ],
      Tmpfs: {
        ...(limits.tmpBytes === undefined
          ? {}
          : { '/tmp': `rw,exec,nosuid,nodev,mode=1777,size=${Math.floor(limits.tmpBytes)}` }),
        '/run': 'rw,exec,nosuid,nodev,mode=755,size=8m',
        ...(reach.how === 'bridge' ? { [SOCKET_FOLDER]: 'rw,noexec,nosuid,nodev,mode=700,size=64k' } : {}),
      },
      Mounts: [
        ...input.binds.map(readOnly),
        ...spec.mounts.map(readOnly),
        ...(reach.how === 'socket' ? [readOnly({ source: reach.runner, target: MOUNTED_RUNNER })] : []),
        ...(reach.how === 'socket' && reach.resolvConf
          ? [readOnly({ source: reach.resolvConf, target: RESOLV_CONF })]
          : []),
        ...(reach.how === 'socket' && !reach.chown
          ? [{ ...readOnly({ source: reach.folder, target: SOCKET_FOLDER }), ReadOnly: false }]
          : []),
      ],
      // Podman's option that makes the container's root the owner.
      ...(reach.how === 'socket' && reach.chown ? { Binds: [`${reach.folder}:${SOCKET_FOLDER}:rw,U`] } : {}),
      LogConfig: { Type: 'none', Config: {} },
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      Init: false,
      CgroupParent: input.cgroupParent,
      Runtime: input.runtime,
    },
  }
}

/** The paths of `oci`, and all of /sys, which the daemon mounts and `oci` does not. */
const MASKED = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/sys',
]

/** Does not include mounts below it, because “read-only” would not apply to them. */
const readOnly = ({ source, target }: { source: string; target: string }): MountSettings => ({
  Type: 'bind',
  Source: source,
  Target: target,
  ReadOnly: true,
  BindOptions: { Propagation: 'rprivate', NonRecursive: true } as MountSettings['BindOptions'],
})

const ofHost = (image: Image) =>
  image === 'host' || (typeof image === 'object' && 'snapshot' in image && image.of === 'host')

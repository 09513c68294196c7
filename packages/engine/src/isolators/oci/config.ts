import type { HiddenPath } from '../../images/host/hidden.ts'
import { environmentOf } from '../environment.ts'
import { gatewaySocket, type IsolatorSpec, storedImage, writesToHost } from '../isolator.ts'
import type { RuntimeKind } from './launch/runtime.ts'
import { limitArguments, MAX_TERMINALS } from './limits/kernel-limits.ts'
import { type InsideIds, SANDBOX_USER } from './privileges/inside-ids.ts'
import type { Architecture } from './seccomp/allowed-calls.ts'
import { filterFor } from './seccomp/compile.ts'
import { type OciSeccomp, ociSeccomp, smallSeccomp } from './seccomp/oci-profile.ts'

/**
 * The sandbox as a standard OCI `config.json`. It defines the isolation, so read it from top to bottom.
 *
 * PID 1 is our runner, as uid 0 of the sandbox's own id range, which is no user of the host. It has three
 * capabilities, valid in its user namespace only: SETUID and SETGID to start each command as the sandbox's user
 * (1000), and KILL to end it. The change of user empties a command's permitted and effective sets, and
 * no-new-privileges keeps them empty. So the code in the sandbox runs as another user than the runner and can neither
 * replace nor trace it. The runner's socket is made outside and handed in, so it has no name inside. Rejected: one
 * user for both and a token, because the code could then read the token and the runner's memory.
 *
 * Sources of bind mounts are below the shim's stage; see `runner/src/shim/mounts.rs`.
 */
export interface ConfigInput {
  readonly spec: IsolatorSpec
  /** First id of the sandbox's range. */
  readonly firstId: number
  readonly inside: InsideIds
  /** Limits that the runner sets on itself (`limits/kernel-limits.ts`). */
  readonly runnerLimits: Readonly<Record<string, number>>
  readonly stage: string
  readonly runtime: RuntimeKind
  readonly architecture: Architecture
  readonly binds: readonly {
    readonly name: string
    readonly target: string
    readonly readOnly: boolean
    readonly exec: boolean
  }[]
  /** Paths of the image that are covered. */
  readonly hidden: readonly HiddenPath[]
  /** The highest value that the host permits. Without CAP_SYS_RESOURCE a limit can be lowered but not raised. */
  readonly maxOpenFiles: number
}

/** Inside every sandbox. */
export const RUNNER_PROGRAM = '/run/sandkasten-runner'

/** The runner briefly opens descriptors above 512 when it starts a command. */
const MIN_OPEN_FILES = 1024

export function ociConfig(input: ConfigInput): object {
  const { spec, firstId, stage, inside } = input
  const image = storedImage(spec.image)
  const { uid, gid } = userOf(spec, inside)
  const ids = [{ containerID: inside.first, hostID: firstId, size: inside.count }]
  const open = spec.network === 'open'
  const openFiles = Math.min(Math.max(spec.limits.openFiles, MIN_OPEN_FILES), input.maxOpenFiles)
  return {
    ociVersion: '1.0.2',
    hostname: spec.hostname,
    process: {
      terminal: false,
      user: { uid: inside.uid, gid: inside.uid },
      cwd: '/',
      args: [
        RUNNER_PROGRAM,
        'serve',
        '--ready-fd',
        '3',
        // gVisor's kernel knows no sockets of the host, so the shim listens for it (`runner/src/shim/gvisor.rs`).
        input.runtime === 'runsc' ? '--handed-fd' : '--listen-fd',
        '4',
        '--user',
        `${uid}:${gid}`,
        '--cwd',
        spec.workdir,
        ...limitArguments({
          ...(input.runtime === 'runsc' ? {} : { openFiles, coreBytes: 0 }),
          ...input.runnerLimits,
        }),
      ],
      env: environmentOf([image?.env, spec.env]),
      capabilities: {
        bounding: inside.capabilities,
        permitted: inside.capabilities,
        effective: inside.capabilities,
        inheritable: [],
        ambient: [],
      },
      noNewPrivileges: true,
      // When the whole machine runs out of memory, sandboxes go before the host's own services.
      oomScoreAdj: 500,
      // In the other runtimes the runner sets these itself: a runtime needs CAP_SYS_RESOURCE for that in a user
      // namespace that is not root's.
      rlimits:
        input.runtime === 'runsc'
          ? [
              { type: 'RLIMIT_NOFILE', soft: openFiles, hard: openFiles },
              { type: 'RLIMIT_CORE', soft: 0, hard: 0 },
            ]
          : undefined,
    },
    root: { path: 'rootfs', readonly: false },
    mounts: [
      // Read-only, so that a process cannot lower its `oom_score_adj` to survive when the machine runs out of memory.
      // runc writes to /proc first, so it uses `readonlyPaths`. On gVisor, /proc belongs to gVisor's own kernel.
      mount('/proc', 'proc', 'proc', [
        'nosuid',
        'nodev',
        'noexec',
        ...(input.runtime === 'crun' ? ['ro'] : []),
      ]),
      mount('/dev', 'tmpfs', 'tmpfs', ['nosuid', 'noexec', 'mode=755', 'size=64k']),
      mount('/dev/pts', 'devpts', 'devpts', [
        'nosuid',
        'noexec',
        'newinstance',
        'ptmxmode=0666',
        'mode=0620',
        `max=${MAX_TERMINALS}`,
        ...(inside.terminalGroup === undefined ? [] : [`gid=${inside.terminalGroup}`]),
      ]),
      mount('/dev/shm', 'tmpfs', 'shm', [
        'nosuid',
        'nodev',
        'noexec',
        'mode=1777',
        `size=${Math.floor(spec.limits.shmBytes)}`,
      ]),
      // Otherwise it is a folder of the root file system, which is mounted nosuid and nodev, too (`shim/mounts.rs`).
      ...(spec.limits.tmpBytes === undefined
        ? []
        : [
            mount('/tmp', 'tmpfs', 'tmpfs', [
              'nosuid',
              'nodev',
              'mode=1777',
              `size=${Math.floor(spec.limits.tmpBytes)}`,
            ]),
          ]),
      mount('/run', 'tmpfs', 'tmpfs', ['nosuid', 'nodev', 'mode=755', 'size=8m']),
      // Without this entry, gVisor mounts its own.
      ...(input.runtime === 'runsc' ? [mount('/sys', 'tmpfs', 'tmpfs', ['ro', 'mode=755', 'size=4k'])] : []),
      ...input.binds.map(({ name, target, readOnly, exec }) =>
        mount(target, 'bind', `${stage}/${name}`, [
          'bind',
          'nosuid',
          'nodev',
          'private',
          ...(readOnly ? ['ro'] : ['rw']),
          ...(exec ? [] : ['noexec']),
        ]),
      ),
      // Not as masked paths: gVisor does not support them, and runtimes mount them without nosuid.
      ...input.hidden.map((hidden) => covered(hidden, stage)),
    ],
    linux: {
      namespaces: [
        ...['mount', 'pid', 'ipc', 'uts', 'cgroup'].map((type) => ({ type })),
        // The shim creates it, with its own owner and limits (`runner/src/shim/idmap.rs`). gVisor cannot join one. runc
        // with an open network cannot either, because the network then belongs to another user namespace.
        { type: 'user', ...(joinsUsers(input.runtime, open) ? { path: `${stage}/userns` } : {}) },
        // The shim has made a network that is connected and filtered (`runner/src/shim/open_network.rs`). Without a
        // network, the runtime starts in an empty one (`runner/src/shim/network.rs`).
        // gVisor takes its interface from the network that this names (`runner/src/egress/pair.rs`).
        ...(open || (input.runtime === 'runsc' && gatewaySocket(spec))
          ? [{ type: 'network', path: `${stage}/network` }]
          : []),
      ],
      uidMappings: ids,
      gidMappings: ids,
      rootfsPropagation: 'private',
      maskedPaths: [
        '/proc/acpi',
        '/proc/asound',
        '/proc/kcore',
        '/proc/keys',
        '/proc/latency_stats',
        '/proc/sched_debug',
        '/proc/scsi',
        '/proc/timer_list',
        '/proc/timer_stats',
      ],
      readonlyPaths:
        input.runtime === 'runc'
          ? ['/proc']
          : ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'],
      ...seccompOf(input),
    },
    // Precompiled, so that crun compiles nothing. The shim checks that PID 1 has a filter, in case a runtime ignores
    // it.
    annotations:
      input.runtime === 'crun'
        ? {
            'run.oci.seccomp_bpf_data': filterFor(input.architecture, { setuid: !writesToHost(spec) }),
          }
        : undefined,
  }
}

function covered({ path, isFolder }: HiddenPath, stage: string) {
  return isFolder
    ? mount(path, 'tmpfs', 'tmpfs', ['ro', 'nosuid', 'nodev', 'noexec', 'mode=755', 'size=4k'])
    : mount(path, 'bind', `${stage}/empty`, ['bind', 'ro', 'nosuid', 'nodev', 'noexec'])
}

const joinsUsers = (runtime: RuntimeKind, open: boolean) =>
  runtime === 'crun' || (runtime === 'runc' && !open)

/** crun gets a precompiled filter instead. */
function seccompOf({ runtime, architecture, spec }: ConfigInput): { seccomp?: OciSeccomp } {
  if (runtime === 'crun') return {}
  if (runtime === 'runsc') return { seccomp: smallSeccomp(architecture) }
  return { seccomp: ociSeccomp(architecture, { setuid: !writesToHost(spec) }) }
}

/** The user of commands. If the sandbox has only one user, the runner shares it. */
export function userOf({ image, user }: IsolatorSpec, { count }: InsideIds): { uid: number; gid: number } {
  if (user === 'root') return { uid: 0, gid: 0 }
  return (count > 1 && storedImage(image)?.user) || { uid: SANDBOX_USER, gid: SANDBOX_USER }
}

const mount = (destination: string, type: string, source: string, options: string[]) => ({
  destination,
  type,
  source,
  options,
})

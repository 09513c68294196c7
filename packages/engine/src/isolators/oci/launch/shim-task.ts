import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HiddenPath } from '../../../images/host/hidden.ts'
import {
  gatewaySocket,
  type HostMount,
  type IsolatorSpec,
  type Limits,
  READ_ONLY_FILES,
} from '../../isolator.ts'
import type { OpenNetwork } from '../../open-network.ts'
import { ociConfig, RUNNER_PROGRAM, userOf } from '../config.ts'
import type { CgroupLayout } from '../limits/cgroups.ts'
import { groupRoots, missingControllers, planGroups } from '../limits/cgroups.ts'
import { kernelLimits } from '../limits/kernel-limits.ts'
import { hostNameservers, openNetwork, PASTA_MEMORY_BYTES, PASTA_PIDS } from '../network/pasta.ts'
import type { Places } from '../places.ts'
import { type InsideIds, insideFor } from '../privileges/inside-ids.ts'
import type { Privileges } from '../privileges/privileges.ts'
import type { Architecture } from '../seccomp/allowed-calls.ts'
import { ownCapabilities, type Runtime, type RuntimeKind, runtimeOverhead, waysOf } from './runtime.ts'
import { type SkeletonEntry, skeletonOf } from './skeleton.ts'

/** A folder of the machine that belongs to the image. With `programs`, the sandbox's root may write to it. */
export interface ImageBind {
  readonly source: string
  readonly target: string
  readonly programs?: {
    readonly folder: string
    readonly folders: string
    readonly hidden: readonly string[]
  }
}

/** The first message to a shim, before it has a sandbox. `runner/src/shim/setup.rs` reads it. */
export function shimSetup(input: {
  readonly runtime: Runtime
  readonly runner: string
  readonly stage: string
  /** The hierarchies that we use, and all that exist. */
  readonly layout: CgroupLayout
  readonly machine: CgroupLayout
  readonly cgroupParent: string
  readonly privileges: Privileges
}): object {
  return {
    version: VERSION,
    runtime: input.runtime.program,
    runner: input.runner,
    stage: input.stage,
    groups: groupRoots(input.layout).map((root) => join(root, input.cgroupParent)),
    ...waysOf(input.runtime.kind, input.stage, input.machine),
    account: input.privileges.kind !== 'root',
    gvisor: input.runtime.kind === 'runsc',
  }
}

/**
 * The second message to a shim. `runner/src/shim/task.rs` reads it. It goes through a pipe, because it contains
 * environment variables that other processes must not see.
 */
export interface TaskInput {
  readonly privileges: Privileges
  readonly spec: IsolatorSpec
  readonly places: Places
  readonly firstId: number
  readonly image: {
    readonly layers: readonly string[]
    readonly binds: readonly ImageBind[]
    /** Paths that the sandbox does not see. */
    readonly hidden: readonly HiddenPath[]
  }
  readonly layout: CgroupLayout
  readonly cgroupParent: string
  readonly stage: string
  readonly runtime: RuntimeKind
  readonly pasta: string
  readonly openNetwork: OpenNetwork
  readonly architecture: Architecture
  readonly maxOpenFiles: number
  readonly volatile: boolean
  /** For a disk with a limit: the path of an empty one of that size (`disk/limited-disk.ts`). */
  readonly diskTemplate?: string
  readonly readyTimeoutMs: number
}

const VERSION = 5

export function shimTask(input: TaskInput): object {
  const { spec, places, image, privileges } = input
  const inside = insideFor(privileges.inside, spec.user)
  const missing = missingControllers(input.layout)
  // The host does not see processes inside gVisor, so no control group counts them.
  const uncounted = input.runtime === 'runsc' ? [...missing, 'pids'] : missing
  const kernel = kernelLimits(privileges.kind, input.runtime, spec.limits, uncounted)
  const binds = [
    // The machine's own files keep their owners, which do not exist inside. Not even the sandbox's root can read a
    // file that is not world-readable.
    ...image.binds.map((bind) => ({
      ...bind,
      readOnly: bind.programs === undefined,
      exec: true,
      idMapped: false,
      exact: false,
      fileSystem: false,
    })),
    ...spec.mounts.map((bind) => ({
      ...bind,
      readOnly: bind.readOnly ?? true,
      exec: true,
      idMapped: ownersOf(bind, spec, inside),
      exact: bind.exact ?? false,
      programs: undefined,
      fileSystem: bind.fileSystem ?? false,
    })),
    ...(spec.readOnlyFiles === undefined ? [] : [readOnlyBind(spec.readOnlyFiles)]),
  ].map((bind, index) => ({ ...bind, name: `bind-${index}` }))
  return {
    version: VERSION,
    witness: places.witness,
    socket: places.socket,
    state: places.state,
    end: places.end,
    firstId: input.firstId,
    firstInside: inside.first,
    ids: inside.count,
    userLimits: kernel.user,
    groups: planGroups(input.layout, input.cgroupParent, withOverhead(input), privileges.kind !== 'root'),
    layers: [...(spec.layers ?? []), ...image.layers],
    // Disks of other sandboxes lie above the files that are generated for each start.
    written: spec.layers?.length ?? 0,
    skeleton: skeletonFor(input).map((entry) => ({
      ...entry,
      // Only if the id exists inside.
      owner: Math.max(0, Math.min(entry.owner - inside.first, inside.count - 1)),
    })),
    disk: spec.limits.diskBytes === undefined ? places.disk : places.limitedDisk,
    template: input.diskTemplate ?? null,
    volatile: input.volatile,
    binds: binds.map(({ name, source, readOnly, idMapped, exact, programs, fileSystem }) => ({
      name,
      source,
      readOnly,
      idMapped,
      exact,
      programs: programs ?? null,
      fileSystem,
    })),
    config: JSON.stringify(
      ociConfig({
        ...input,
        spec: missing.includes('memory') ? smallTmpfs(spec) : spec,
        inside,
        runnerLimits: kernel.runner,
        // The shim has put the runner there beforehand, so that its path on the host does not show.
        hidden: image.hidden,
        binds: [...binds, { name: 'runner', target: RUNNER_PROGRAM, readOnly: true, exec: true }],
      }),
    ),
    capabilities: inside.capabilityBits | ownCapabilities(input.runtime),
    network: spec.network === 'open' ? networkOf(input) : null,
    egress: gatewaySocket(spec) ?? null,
    readyTimeoutMs: input.readyTimeoutMs,
  }
}

function readOnlyBind(source: string) {
  const bind = { source, target: READ_ONLY_FILES, readOnly: true, exec: true, exact: true }
  return { ...bind, idMapped: false, programs: undefined, fileSystem: false }
}

/**
 * Which owners files of a mount have inside. The owner 1000 of a shared folder is the sandbox's user; with `asOwner`,
 * the folder's own owner is. If the sandbox's user is root, the host's owners do not exist inside: otherwise it could
 * read the files of the host's root.
 */
function ownersOf(mount: HostMount, spec: IsolatorSpec, inside: InsideIds) {
  if (mount.asOwner) return userOf(spec, inside)
  return spec.user !== 'root' || mount.ofSandboxes === true
}

function networkOf({ pasta, stage, firstId, privileges, openNetwork: open }: TaskInput): object {
  return openNetwork({
    pasta,
    stage,
    firstId,
    ids: privileges.inside.count,
    nameservers: hostNameservers(),
    open,
  })
}

/** Without a memory control group, files in memory are not counted. So they get at most the sandbox's memory limit. */
function smallTmpfs(spec: IsolatorSpec): IsolatorSpec {
  const { memoryBytes, tmpBytes, shmBytes } = spec.limits
  const small = {
    ...(tmpBytes === undefined ? {} : { tmpBytes: Math.min(tmpBytes, memoryBytes) }),
    shmBytes: Math.min(shmBytes, memoryBytes),
  }
  return { ...spec, limits: { ...spec.limits, ...small } }
}

/** pasta and gVisor run in the sandbox's groups, so the sandbox pays for their work but not for their own size. */
function withOverhead({ spec: { limits, network }, runtime }: TaskInput): Limits {
  const { memoryBytes, pids } = runtimeOverhead(runtime, limits)
  const [pastaBytes, pastaPids] = network === 'open' ? [PASTA_MEMORY_BYTES, PASTA_PIDS] : [0, 0]
  return {
    ...limits,
    memoryBytes: limits.memoryBytes + memoryBytes + pastaBytes,
    pids: limits.pids + pids + pastaPids,
  }
}

/** gVisor mounts a file system in memory over an empty /tmp, whose content a stop would lose. */
function skeletonFor({ spec, image, places, privileges, runtime }: TaskInput): SkeletonEntry[] {
  const layers = [...(spec.layers ?? []), ...image.layers]
  const entries = skeletonOf(spec, privileges.skeleton(spec), layers).map((entry) => inFile(entry, places))
  return runtime === 'runsc' ? [...entries, { path: 'tmp/.sandkasten', text: '', owner: 0 }] : entries
}

/** The task is text, so the shim copies other content from the sandbox's folder. */
function inFile({ data, ...entry }: SkeletonEntry, { folder }: Places): SkeletonEntry {
  if (data === undefined) return entry
  const source = join(folder, entry.path.replaceAll('/', '_'))
  writeFileSync(source, data, { mode: 0o600 })
  return { ...entry, text: '', source }
}

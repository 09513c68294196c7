import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { type CgroupLayout, hiddenFromRuntime } from '../limits/cgroups.ts'
import type { Privileges } from '../privileges/privileges.ts'
import { findProgram } from './find-program.ts'

/** The command line that a runtime understands. */
export type RuntimeKind = 'crun' | 'runc' | 'runsc'

export const runtimeKinds: readonly RuntimeKind[] = ['crun', 'runc', 'runsc']

export interface Runtime {
  readonly kind: RuntimeKind
  /** Absolute. */
  readonly program: string
}

/** Decides by the name, without running the program. */
export function isolationOf(options: {
  runtime?: string
  runtimeKind?: RuntimeKind
}): 'container' | 'gvisor' {
  const kind = options.runtimeKind ?? kindNamed(options.runtime ?? 'crun')
  return kind === 'runsc' ? 'gvisor' : 'container'
}

const kindNamed = (name: string) => runtimeKinds.find((kind) => kind === basename(name))

/** Finds a runtime by a name in PATH or a path. Its kind comes from the caller, its name or its version output. */
export async function findRuntime(
  name: string,
  kind?: RuntimeKind,
  privileges: Privileges['kind'] = 'root',
): Promise<Runtime> {
  const found = await lookUp(name, kind)
  if (found.kind === 'crun' || privileges === 'root') return found
  throw new SandboxError('unsupported', `sandboxes on ${found.kind} need root`, {
    hint: 'Omit oci.runtime (--runtime) to use crun, the only runtime for ordinary accounts, or run the engine as root.',
  })
}

async function lookUp(name: string, kind: RuntimeKind | undefined): Promise<Runtime> {
  const program = findProgram(name)
  const known = kind ?? kindNamed(name)
  if (known) return { kind: known, program }
  const version = await versionOf(program)
  const found = kindOf(version)
  if (found) return { kind: found, program }
  throw new SandboxError('invalid_argument', `${name} is not a known runtime: ${version}`, {
    hint: `Use ${runtimeKinds.join(', ')}, or set \`runtimeKind\` to the one with the same command line.`,
  })
}

/** The first line of its version output. */
export async function versionOf(program: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(findProgram(program), ['--version'], { timeout: 30_000 })
    return stdout.split('\n', 1)[0]!
  } catch (cause) {
    throw new SandboxError('unavailable', `cannot run ${program}: ${(cause as Error).message.trim()}`, {
      cause,
      hint: `Run: apt-get install ${packageOf(program)}`,
    })
  }
}

export function kindOf(version: string): RuntimeKind | undefined {
  return runtimeKinds.find((kind) => version.startsWith(`${kind} `))
}

/** The Debian package of the program, if known. */
export function packageOf(name: string): string {
  const word = basename(name)
  return (runtimeKinds as readonly string[]).includes(word) ? word : 'crun'
}

/**
 * The arguments that start the sandbox of the stage, and the control groups that the runtime sees.
 *
 * The control groups are ours: the process that becomes the runtime joins them first, and its children stay there.
 * - crun and runsc have an option to leave control groups alone. crun refuses to start where v1 and v2 are mounted
 *   side by side, so v2 is hidden from it.
 * - runc has no such option. It creates groups below the current one, or at the top of a hierarchy, always with the
 *   same name. So the groups are read-only to runc, and an option makes it accept that.
 *
 * runsc gets more options. Its network is the loopback of its own kernel. It writes files in place, not into its own
 * layer. The filter of `config.json` applies inside and restricts calls to gVisor's kernel.
 */
export function waysOf(
  kind: RuntimeKind,
  stage: string,
  layout: CgroupLayout,
): { arguments: string[]; hide: string[]; readOnly: string[] } {
  const run = ['run', '--detach', '--preserve-fds=2', '--bundle', stage, 'sandbox']
  const root = ['--root', `${stage}/runtime`]
  if (kind === 'runsc')
    return {
      arguments: [
        ...root,
        '--ignore-cgroups',
        '--network=none',
        '--overlay2=none',
        '--file-access=shared',
        '--oci-seccomp',
        'run',
        '--detach',
        '--pass-fd=3:3',
        '--pass-fd=4:4',
        '--pid-file',
        `${stage}/sandbox.pid`,
        '--bundle',
        stage,
        'sandbox',
      ],
      hide: [],
      readOnly: cgroupMounts(layout),
    }
  if (kind === 'crun')
    return {
      arguments: [...root, '--cgroup-manager=disabled', ...run],
      hide: hiddenFromRuntime(layout),
      readOnly: [],
    }
  return { arguments: [...root, '--rootless=true', ...run], hide: [], readOnly: cgroupMounts(layout) }
}

function cgroupMounts({ v1, v2 }: CgroupLayout): string[] {
  return [...new Set([...Object.values(v1), ...(v2 ? [v2.root] : [])])]
}

/**
 * The capabilities that the runtime's own process keeps in addition to those of PID 1. It is the sandbox's root on
 * the host. Only gVisor's kernel needs any: to serve files with all owners (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH,
 * FOWNER, FSETID) and to drive the processes of its programs (SYS_PTRACE). They are valid in the sandbox's user
 * namespace only.
 */
export function ownCapabilities(kind: RuntimeKind): number {
  return kind === 'runsc' ? 0x8001f : 0
}

/** The runtime's own needs in addition to the sandbox's limits. Only gVisor keeps running after the start. */
export function runtimeOverhead(
  kind: RuntimeKind,
  { pids }: { pids: number },
): { memoryBytes: number; pids: number } {
  if (kind !== 'runsc') return { memoryBytes: 0, pids: 0 }
  // Each process inside has an empty host process with a thread for each processor. gVisor itself has threads too.
  return { memoryBytes: 96 * 1024 * 1024, pids: Math.min(pids * (1 + availableParallelism()), 8192) + 256 }
}

/**
 * The lowest limits of a sandbox, because the runtime itself starts within them. runc has many threads and needs 20
 * MB.
 */
export function leastLimits(kind: RuntimeKind): { memoryBytes: number; pids: number } {
  const MiB = 1024 * 1024
  return kind === 'crun' ? { memoryBytes: 8 * MiB, pids: 8 } : { memoryBytes: 32 * MiB, pids: 32 }
}

import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { type CgroupLayout, hiddenFromRuntime } from '../limits/cgroups.ts'
import type { Privileges } from '../privileges/privileges.ts'
import { findProgram } from './find-program.ts'

/** Whose words a runtime understands. */
export type RuntimeKind = 'crun' | 'runc' | 'runsc'

export const runtimeKinds: readonly RuntimeKind[] = ['crun', 'runc', 'runsc']

export interface Runtime {
  readonly kind: RuntimeKind
  /** Absolute. */
  readonly program: string
}

/** As far as it can be told without running it: one whose name does not say that it is gVisor's is not taken for it. */
export function isolationOf(options: {
  runtime?: string
  runtimeKind?: RuntimeKind
}): 'container' | 'gvisor' {
  const kind = options.runtimeKind ?? kindNamed(options.runtime ?? 'crun')
  return kind === 'runsc' ? 'gvisor' : 'container'
}

const kindNamed = (name: string) => runtimeKinds.find((kind) => kind === basename(name))

/** By a name in PATH or a path. What kind it is, its name says, or the caller, or it is asked for its version. */
export async function findRuntime(
  name: string,
  kind?: RuntimeKind,
  privileges: Privileges['kind'] = 'root',
): Promise<Runtime> {
  const found = await lookUp(name, kind)
  if (found.kind === 'crun' || privileges === 'root') return found
  throw new SandboxError('unsupported', `sandboxes on ${found.kind} need root`, {
    hint: 'Leave oci.runtime (--runtime) out: an ordinary account’s sandboxes are on crun. Or run the engine as root.',
  })
}

async function lookUp(name: string, kind: RuntimeKind | undefined): Promise<Runtime> {
  const program = findProgram(name)
  const known = kind ?? kindNamed(name)
  if (known) return { kind: known, program }
  const version = await versionOf(program)
  const found = kindOf(version)
  if (found) return { kind: found, program }
  throw new SandboxError('invalid_argument', `${name} is no runtime that is known here: ${version}`, {
    hint: `Use ${runtimeKinds.join(', ')}, or say in \`runtimeKind\` whose words it understands.`,
  })
}

/** The first line of what it says about itself. */
export async function versionOf(program: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(findProgram(program), ['--version'], { timeout: 30_000 })
    return stdout.split('\n', 1)[0]!
  } catch (cause) {
    throw new SandboxError('unavailable', `${program} cannot be run: ${(cause as Error).message.trim()}`, {
      cause,
      hint: `Run: apt-get install ${packageOf(program)}`,
    })
  }
}

export function kindOf(version: string): RuntimeKind | undefined {
  return runtimeKinds.find((kind) => version.startsWith(`${kind} `))
}

/** Which package brings it, where that can be told. */
export function packageOf(name: string): string {
  const word = basename(name)
  return (runtimeKinds as readonly string[]).includes(word) ? word : 'crun'
}

/**
 * How it is told to start the sandbox of the stage, and what it sees of the control groups.
 *
 * The groups are ours: the process that becomes the runtime is in them before it starts, and everything that it starts stays there. crun can be told to
 * leave them alone (and refuses to start at all where v1 and v2 are side by side, so it does not see v2 there). runc cannot: it makes groups of
 * its own below the ones that it is in and, in hierarchies where it is in none, right at the top, by a name that would be the same for
 * all. So they are read-only to it, and it is told to accept that, which is the way it works where nothing was delegated to it. runsc can be told.
 *
 * What else runsc is told: no network but the loopback of its own kernel; files are written where they are said to be, and not into a
 * layer of its own above them; and the filter of `config.json` is meant too, inside, where it narrows what can be asked of that kernel.
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
 * What the runtime's own process, which is the sandbox's root on the host, may keep beside what PID 1 may have: nothing, but for gVisor's kernel. That
 * serves the sandbox's files, with all their owners (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID), and drives the processes that its
 * programs run in (SYS_PTRACE). All of it counts in the sandbox's user namespace only.
 */
export function ownCapabilities(kind: RuntimeKind): number {
  return kind === 'runsc' ? 0x8001f : 0
}

/** What a runtime that stays, which only gVisor does, needs for itself beside what the sandbox was given. */
export function runtimeOverhead(
  kind: RuntimeKind,
  { pids }: { pids: number },
): { memoryBytes: number; pids: number } {
  if (kind !== 'runsc') return { memoryBytes: 0, pids: 0 }
  // For each process inside there is an empty one of the host, with a thread for each processor; and threads of the gVisor itself.
  return { memoryBytes: 96 * 1024 * 1024, pids: Math.min(pids * (1 + availableParallelism()), 8192) + 256 }
}

/**
 * The least that a sandbox's limits may be: the runtime itself starts within them. runc is a program of many threads and some twenty megabytes.
 */
export function leastLimits(kind: RuntimeKind): { memoryBytes: number; pids: number } {
  const MiB = 1024 * 1024
  return kind === 'crun' ? { memoryBytes: 8 * MiB, pids: 8 } : { memoryBytes: 32 * MiB, pids: 32 }
}

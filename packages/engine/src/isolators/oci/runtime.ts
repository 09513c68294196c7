import { execFile } from 'node:child_process'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { type CgroupLayout, hiddenFromRuntime } from './cgroups.ts'
import type { Footing } from './footing.ts'
import { findProgram } from './programs.ts'

/** Whose words a runtime understands. */
export type RuntimeKind = 'crun' | 'runc'

export const runtimeKinds: readonly RuntimeKind[] = ['crun', 'runc']

export interface Runtime {
  readonly kind: RuntimeKind
  /** Absolute. */
  readonly program: string
}

/** By a name in PATH or a path. What kind it is, its name says, or the caller, or it is asked for its version. */
export async function findRuntime(
  name: string,
  kind?: RuntimeKind,
  footing: Footing['kind'] = 'root',
): Promise<Runtime> {
  const found = await lookUp(name, kind)
  if (found.kind === 'crun' || footing === 'root') return found
  throw new SandboxError('unsupported', `sandboxes on ${found.kind} need root`, {
    hint: 'Leave oci.runtime (--runtime) out: an ordinary account’s sandboxes are on crun. Or run the engine as root.',
  })
}

async function lookUp(name: string, kind: RuntimeKind | undefined): Promise<Runtime> {
  const program = findProgram(name)
  const known = kind ?? runtimeKinds.find((kind) => kind === basename(name))
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
 * all. So they are read-only to it, and it is told to accept that, which is the way it works where nothing was delegated to it.
 */
export function waysOf(
  kind: RuntimeKind,
  stage: string,
  layout: CgroupLayout,
): { arguments: string[]; hide: string[]; readOnly: string[] } {
  const run = ['run', '--detach', '--preserve-fds=2', '--bundle', stage, 'sandbox']
  const root = ['--root', `${stage}/runtime`]
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
 * The least that a sandbox's limits may be: the runtime itself starts within them. runc is a program of many threads and some twenty megabytes.
 */
export function leastLimits(kind: RuntimeKind): { memoryBytes: number; pids: number } {
  const MiB = 1024 * 1024
  return kind === 'crun' ? { memoryBytes: 8 * MiB, pids: 8 } : { memoryBytes: 32 * MiB, pids: 32 }
}

import { accessSync, constants } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import type { ProbeResult } from '../isolator.ts'
import type { Daemon, DaemonFacts } from './daemon/daemon.ts'

/** Checks the isolator's needs one by one. Reports the first that is missing, and how to fix it. */
export async function probeDaemon(daemon: Daemon, runner: string): Promise<ProbeResult> {
  let facts: DaemonFacts
  try {
    facts = await daemon.facts()
  } catch (error) {
    if (!SandboxError.is(error)) throw error
    return { ok: false, reason: error.message, fix: error.hint }
  }
  const missing = (['memoryLimit', 'cpuLimit', 'pidsLimit', 'seccomp'] as const).filter(
    (name) => !facts[name],
  )
  if (missing.length > 0)
    return {
      ok: false,
      reason: `the daemon lacks ${missing.join(', ')}`,
      fix: 'Provide the cgroup controllers memory, cpu and pids, and a kernel with seccomp.',
    }
  try {
    accessSync(runner, constants.R_OK)
  } catch {
    return { ok: false, reason: `there is no runner at ${runner}`, fix: 'Run: runner/build.sh' }
  }
  return { ok: true, detail: `${facts.kind} ${facts.version} on ${daemon.where}` }
}

/** The weaknesses of this daemon's sandboxes compared with `oci`. */
export function weaknesses(
  facts: DaemonFacts,
  options: { userns?: string; closesNetworks: boolean },
): string[] {
  const ids = facts.remapped || (facts.kind === 'podman' && options.userns !== undefined)
  return [
    ...(ids
      ? facts.kind === 'docker'
        ? ['All sandboxes of this daemon have the same ids.']
        : []
      : [
          'The daemon does not remap ids: its root is this machine’s root with three capabilities, and its user is this machine’s user 1000.',
        ]),
    options.closesNetworks
      ? 'The network `open` blocks the addresses that this machine has when a sandbox starts, not those that it gets later.'
      : 'The network `open` reaches private networks, metadata addresses and the daemon’s machine: the engine cannot enter its containers’ networks.',
    'Access to the daemon’s socket gives root on its machine, and this engine has it.',
  ]
}

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
      reason: `the daemon offers no ${missing.join(', ')}`,
      fix: 'Give it the control groups memory, cpu and pids, and a kernel with seccomp.',
    }
  try {
    accessSync(runner, constants.R_OK)
  } catch {
    return { ok: false, reason: `there is no runner at ${runner}`, fix: 'Run: runner/build.sh' }
  }
  return { ok: true, detail: `${facts.kind} ${facts.version} on ${daemon.where}` }
}

/** What a sandbox of this daemon lacks compared with `oci`. */
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
          'Its root is this machine’s root, without capabilities but three, and its user this machine’s user 1000: the daemon does not remap ids.',
        ]),
    options.closesNetworks
      ? 'The network `open` is closed to this machine’s addresses as they are when a sandbox starts, not to those that it gets later.'
      : 'The network `open` reaches private networks, metadata addresses and the daemon’s machine: its containers’ networks cannot be entered from here.',
    'Whoever may use the daemon’s socket is root on its machine; this engine may.',
  ]
}

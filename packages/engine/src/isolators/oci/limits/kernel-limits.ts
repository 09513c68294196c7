import type { Limits } from '../../isolator.ts'
import type { RuntimeKind } from '../launch/runtime.ts'
import type { Privileges } from '../privileges/privileges.ts'

/**
 * Limits of kernel objects that no control group counts. `docs/kernel-resources.md` has the whole table.
 *
 * The kernel counts each of them for a user of a user namespace, then for the owner of that namespace, up to the
 * host. Each of root's sandboxes has an owner of its own (`runner/src/shim/idmap.rs`), so these limits are per
 * sandbox at every level. All sandboxes of an account have the account as their owner, so smaller values leave
 * something for the others.
 */
export interface KernelLimits {
  /** Per sandbox: files of `/proc/sys/user` in its user namespace. */
  readonly user: readonly { readonly name: string; readonly value: number }[]
  /**
   * Per user of the sandbox. The runner sets them on itself inside the user namespace, and its children inherit them.
   */
  readonly runner: Readonly<Record<string, number>>
}

const MiB = 1024 * 1024

/** The runner's own threads, if the runner and its commands are the same user. */
const RUNNER_PIDS = 8

export function kernelLimits(
  kind: Privileges['kind'],
  runtime: RuntimeKind,
  limits: Limits,
  missingControllers: readonly string[],
): KernelLimits {
  const alone = kind === 'root'
  return {
    user: [
      { name: 'max_user_namespaces', value: 0 },
      { name: 'max_inotify_instances', value: alone ? 128 : 32 },
      { name: 'max_inotify_watches', value: alone ? 65_536 : 16_384 },
    ],
    runner: {
      // gVisor's kernel keeps these objects in the memory of the sandbox and does not limit their number.
      ...(runtime === 'runsc' ? {} : { ...sharedLimits, ...(alone ? { queueBytes: 819_200 } : {}) }),
      ...(missingControllers.includes('pids') ? { processes: limits.pids + RUNNER_PIDS } : {}),
      // Limits written memory, not reserved memory: `RLIMIT_AS` would stop programs that reserve more than they use,
      // such as Node, Java and Go.
      ...(missingControllers.includes('memory') ? { dataBytes: limits.memoryBytes } : {}),
    },
  }
}

/** For sandboxes that share a user on the host: each gets a part of the kernel's default for a user. */
export const sharedLimits = {
  /** Timers of `timer_create` count too. */
  pendingSignals: 8192,
  /** Two queues of the usual size. */
  queueBytes: 204_800,
  lockedBytes: 8 * MiB,
}

/**
 * Per sandbox. The kernel keeps `kernel.pty.reserve` (1024) of `kernel.pty.max` (4096) for the host; all sandboxes
 * share the other 3072.
 */
export const MAX_TERMINALS = 128

/** Arguments of `runner serve`. */
export function limitArguments(limits: Readonly<Record<string, number>>): string[] {
  return Object.entries(limits).flatMap(([name, value]) => ['--limit', `${name}=${value}`])
}

import type { Limits } from '../../isolator.ts'
import type { RuntimeKind } from '../launch/runtime.ts'
import type { Privileges } from '../privileges/privileges.ts'

/**
 * Limits of kernel objects that no control group counts. `docs/kernel-resources.md` has the whole table.
 *
 * The kernel counts each of them for a user of a user namespace, and then for the owner of that namespace, up to the host. Root's sandboxes have an owner
 * each (`runner/src/shim/idmap.rs`), so these limits are per sandbox all the way up. An account's sandboxes have the account as their owner: there,
 * smaller values leave something for the account's other sandboxes.
 */
export interface KernelLimits {
  /** Per sandbox: files of `/proc/sys/user` in its user namespace. */
  readonly user: readonly { readonly name: string; readonly value: number }[]
  /** Per user of the sandbox. The runner sets them on itself, inside the user namespace, and everything that it starts inherits them. */
  readonly runner: Readonly<Record<string, number>>
}

const MiB = 1024 * 1024

/** The runner's own threads, where they are of the same user as what it runs. */
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
      // gVisor's kernel has these for itself, in the memory of the sandbox, and knows no limit of them.
      ...(runtime === 'runsc' ? {} : { ...sharedLimits, ...(alone ? { queueBytes: 819_200 } : {}) }),
      ...(missingControllers.includes('pids') ? { processes: limits.pids + RUNNER_PIDS } : {}),
      // What is written to, not what is reserved: `RLIMIT_AS` would stop every program that reserves more than it uses, as Node, Java and Go do.
      ...(missingControllers.includes('memory') ? { dataBytes: limits.memoryBytes } : {}),
    },
  }
}

/** For sandboxes whose users are the same on the host: each gets a part of what the kernel allows a user by default. */
export const sharedLimits = {
  /** Timers of `timer_create` count too. */
  pendingSignals: 8192,
  /** Two queues of the usual size. */
  queueBytes: 204_800,
  lockedBytes: 8 * MiB,
}

/** Of one sandbox. The kernel keeps `kernel.pty.reserve` (1024) of `kernel.pty.max` (4096) for the host; the other 3072 are for all sandboxes. */
export const MAX_TERMINALS = 128

/** Arguments of `runner serve`. */
export function limitArguments(limits: Readonly<Record<string, number>>): string[] {
  return Object.entries(limits).flatMap(([name, value]) => ['--limit', `${name}=${value}`])
}

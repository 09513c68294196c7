/** Type tests of `keepAlive`, `withRetry` and `failover`. Never run: `tsc` is the test. */

import {
  type Capabilities,
  failover,
  keepAlive,
  type SandboxCore,
  type SandboxHandle,
  type SandboxProvider,
  supports,
  withRetry,
} from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
declare function provider<C extends Capabilities>(): SandboxProvider<C>

/** A group has the abilities that all its members share. */
export async function groups(): Promise<void> {
  const local = new LocalProvider()
  const memory = new MemoryProvider()
  const group = failover(memory, local, { acceptNoIsolation: true })
  const sandbox = await group.create()
  await sandbox.snapshot()
  await group.listSnapshots()
  // @ts-expect-error it may be a local sandbox, which cannot be paused
  await sandbox.pause()
  if (supports(sandbox, 'pause')) await sandbox.pause()
  // @ts-expect-error the memory provider has a shell only if you script one
  await sandbox.openShell()
  await group.getOrCreate({
    name: 'x',
    onCreate: async (made) => {
      await made.snapshot()
      // @ts-expect-error not here either
      await made.pause()
    },
  })

  const three = failover(
    provider<{ fork: 'native'; snapshot: 'native'; stop: 'native' }>(),
    provider<{ snapshot: 'emulated'; stop: 'native' }>(),
    provider<{ pause: 'native'; stop: 'native'; snapshot?: 'native' }>(),
  )
  await (await three.create()).stop()
  // @ts-expect-error one of three lacks it, and another may lack it
  await (await three.create()).snapshot()
  const abilities: Same<keyof typeof three.capabilities, 'stop'> = true
  // @ts-expect-error a group without snapshots cannot list them
  await three.listSnapshots()

  // A list of unknown length has the abilities of its element type, and so has a group with such a member.
  const list: SandboxProvider[] = []
  const unknown = failover(...list)
  const same: Same<typeof unknown.capabilities, Capabilities> = true
  const mixed = failover(local, list[0]!, { acceptNoIsolation: true })
  const also: Same<typeof mixed.capabilities, Capabilities> = true

  // A group is a provider: code that takes any provider accepts it, and so does another group.
  const anyone: SandboxProvider<typeof group.capabilities> = group
  failover(group, withRetry(memory), { onChoice: (account) => account.chosen?.toUpperCase() })
  // @ts-expect-error wrong credentials do not cause a failover
  failover(memory, { also: ['unauthenticated'] })
  void [abilities, same, also, anyone]
}

/** The type stays the same. */
export function retries(local: LocalProvider, sandbox: SandboxHandle<{ stop: 'native' }>): void {
  const provider: LocalProvider = withRetry(local, { attempts: 2 })
  const handle: SandboxHandle<{ stop: 'native' }> = withRetry(sandbox)
  // @ts-expect-error a number has no calls to retry
  withRetry(3)
  void [provider, handle]
}

export async function hearts(
  sandbox: SandboxHandle,
  fleeting: SandboxHandle<{ stop: 'native' }>,
  bare: SandboxHandle<{ lifetime: 'native' }>,
  idle: SandboxHandle<{ activity: 'native'; snapshot: 'native' }>,
  unknown: SandboxCore,
): Promise<void> {
  await using heart = keepAlive(sandbox, { autoSnapshot: { beforeMs: 1000 } })
  const { reason, snapshotId } = await heart.ended
  keepAlive(bare, { leaseMs: 1000, onError: (error, { retryInMs }) => void [error, retryInMs] })
  // @ts-expect-error it has no snapshots
  keepAlive(bare, { autoSnapshot: true })
  keepAlive(idle, { autoSnapshot: true })
  // @ts-expect-error it has no lifetime to extend
  await idle.extendTimeout(1000)
  // @ts-expect-error it does not stop when idle
  await bare.refreshActivity()
  // @ts-expect-error it has no lifetime
  keepAlive(fleeting)
  // @ts-expect-error its abilities are unknown
  keepAlive(unknown)
  if (supports(unknown, 'lifetime')) keepAlive(unknown)
  if (supports(unknown, 'activity')) keepAlive(unknown)
  if (supports(unknown, 'lifetime') && supports(unknown, 'snapshot'))
    keepAlive(unknown, { autoSnapshot: true })
  void [reason, snapshotId]
}

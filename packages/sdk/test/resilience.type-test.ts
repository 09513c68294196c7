/** What `keepAlive`, `withRetry` and `failover` promise by their types. Never run; `tsc` is its test. */

import {
  type AllCapabilities,
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

/** A group has what all of its members have. */
export async function groups(): Promise<void> {
  const local = new LocalProvider()
  const memory = new MemoryProvider()
  const group = failover(memory, local, { acceptNoIsolation: true })
  const sandbox = await group.create()
  await sandbox.snapshot()
  await group.listSnapshots()
  // @ts-expect-error a local sandbox cannot be paused, and it may be one
  await sandbox.pause()
  if (supports(sandbox, 'pause')) await sandbox.pause()
  // @ts-expect-error the memory provider has a shell only where one is scripted
  await sandbox.openShell()
  await group.getOrCreate({
    name: 'x',
    onCreate: async (made) => {
      await made.snapshot()
      // @ts-expect-error here neither
      await made.pause()
    },
  })

  const three = failover(
    provider<{ fork: 'native'; snapshot: 'native'; stop: 'native' }>(),
    provider<{ snapshot: 'emulated'; stop: 'native' }>(),
    provider<{ pause: 'native'; stop: 'native'; snapshot?: 'native' }>(),
  )
  await (await three.create()).stop()
  // @ts-expect-error two of three are not all, and perhaps is not yes
  await (await three.create()).snapshot()
  const abilities: Same<keyof typeof three.capabilities, 'stop'> = true
  // @ts-expect-error a group without snapshots has none to list
  await three.listSnapshots()

  // A list whose length is not known has what its elements have; of what is not known everything is assumed.
  const list: SandboxProvider[] = []
  const unknown = failover(...list)
  const same: Same<typeof unknown.capabilities, AllCapabilities> = true

  // A group is a provider, of code that takes any and of another group.
  const anyone: SandboxProvider<typeof group.capabilities> = group
  failover(group, withRetry(memory), { onChoice: (account) => account.chosen?.toUpperCase() })
  // @ts-expect-error credentials that are wrong here are not tried elsewhere
  failover(memory, { also: ['unauthenticated'] })
  void [abilities, same, anyone]
}

/** The same thing comes back. */
export function retries(local: LocalProvider, sandbox: SandboxHandle<{ stop: 'native' }>): void {
  const provider: LocalProvider = withRetry(local, { attempts: 2 })
  const handle: SandboxHandle<{ stop: 'native' }> = withRetry(sandbox)
  // @ts-expect-error a number has no calls to repeat
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
  // @ts-expect-error it cannot be saved
  keepAlive(bare, { autoSnapshot: true })
  keepAlive(idle, { autoSnapshot: true })
  // @ts-expect-error it has no end that could be put off
  await idle.extendTimeout(1000)
  // @ts-expect-error nothing stops it for being idle
  await bare.refreshActivity()
  // @ts-expect-error it does not end by itself
  keepAlive(fleeting)
  // @ts-expect-error nothing is known of it
  keepAlive(unknown)
  if (supports(unknown, 'lifetime')) keepAlive(unknown)
  if (supports(unknown, 'activity')) keepAlive(unknown)
  if (supports(unknown, 'lifetime') && supports(unknown, 'snapshot'))
    keepAlive(unknown, { autoSnapshot: true })
  void [reason, snapshotId]
}

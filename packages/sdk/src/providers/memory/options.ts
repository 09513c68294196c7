import type { Clock } from '../../shared/calls/clock.ts'
import type { Ability, CreateOption, SandboxEndpoint } from '../../spec/index.ts'
import type { ShellHandler } from './shell.ts'

export interface MemoryProviderOptions {
  /** Default: the real clock. With a `ManualClock`, the test controls lifetimes, timeouts and delays. */
  clock?: Clock
  /** Makes ids predictable: `mem` names the sandboxes `mem-1`, `mem-2`, … Default: random ids. */
  seed?: string
  /** A scripted shell. It enables the ability `shell`. */
  shell?: ShellHandler
  /** Disables abilities (`{ snapshot: false }`), to test how your code handles that. */
  capabilities?: { readonly [A in Ability]?: false }
  /** Snapshots and forks restart a running sandbox, so its programs end, as at Vercel. Default false. */
  snapshotInterrupts?: boolean
  /** The runtimes that `create` accepts; nothing is installed. Default: node24, node22 and python3.13. */
  runtimes?: readonly string[]
  /** Further options of `create` to accept. They have no effect. */
  createOptions?: readonly CreateOption[]
  /** The result of `getEndpoint`. Default `http://<sandbox>-<port>.memory.invalid`. */
  endpoint?: (sandboxId: string, port: number) => SandboxEndpoint
}

export const known: ReadonlyArray<keyof MemoryProviderOptions> = [
  'clock',
  'seed',
  'shell',
  'capabilities',
  'snapshotInterrupts',
  'runtimes',
  'createOptions',
  'endpoint',
]

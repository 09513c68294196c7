import type { Clock } from '../../shared/clock.ts'
import type { Ability, CreateOption, SandboxEndpoint } from '../../spec/index.ts'
import type { ShellHandler } from './shell.ts'

export interface MemoryProviderOptions {
  /** Default: the real one. With a `ManualClock`, lifetimes, timeouts and delays pass when the test says so. */
  clock?: Clock
  /** Makes ids predictable: `mem` gives the sandboxes `mem-1`, `mem-2`, … Default: random ids. */
  seed?: string
  /** A scripted shell; it brings the ability `shell`. */
  shell?: ShellHandler
  /** Abilities to go without (`{ snapshot: false }`), to test what your code does then. */
  capabilities?: { readonly [A in Ability]?: false }
  /** Options of `create` to accept beside the usual ones; what they say is not acted upon. */
  createOptions?: readonly CreateOption[]
  /** What `getEndpoint` answers. Default `http://<sandbox>-<port>.memory.invalid`. */
  endpoint?: (sandboxId: string, port: number) => SandboxEndpoint
}

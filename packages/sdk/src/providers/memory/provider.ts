import type { NormalNetwork } from '../../core/network/normal.ts'
import { DriverProvider } from '../../core/provider.ts'
import { checkKnown } from '../../core/validate.ts'
import { realClock } from '../../shared/calls/clock.ts'
import type { MemoryCapabilities } from './capabilities.ts'
import { MemoryDriver } from './driver.ts'
import type { Fault, FaultRule } from './faults.ts'
import type { CommandHandler, CommandMatcher, RecordedCall } from './machine/commands.ts'
import { known, type MemoryProviderOptions } from './options.ts'
import { SharedState } from './shared-state.ts'

/**
 * Sandboxes that exist only in this program's memory: a test double. Files can be written and read, programs are functions
 * that you script, and you control time and failures.
 *
 *     const provider = new MemoryProvider({ seed: 'mem' })
 *     provider.command('git', async ({ args, stdout }) => { await stdout.write(`git ${args.join(' ')}\n`); return 0 })
 *     provider.fault({ on: 'create', error: 'quota_exceeded' })
 */
export class MemoryProvider extends DriverProvider<MemoryCapabilities> {
  readonly #sharedState: SharedState
  readonly #options: MemoryProviderOptions

  constructor(
    options: MemoryProviderOptions = {},
    sharedState = new SharedState({ clock: realClock, ...options }),
  ) {
    checkKnown(options, known, 'MemoryProvider')
    super(new MemoryDriver(sharedState, options))
    this.#sharedState = sharedState
    this.#options = options
  }

  /** All program runs, in order. */
  get calls(): readonly RecordedCall[] {
    return this.#sharedState.calls
  }

  /** Adds a program. For the same name, the last added program takes precedence. */
  command(matcher: CommandMatcher, handler: CommandHandler): this {
    this.#sharedState.commands.add(matcher, handler)
    return this
  }

  /** Makes later calls fail, wait or break off according to the rule. */
  fault(rule: FaultRule): Fault {
    return this.#sharedState.faults.add(rule)
  }

  /** Another provider object over the same sandboxes, like a second program or this one after a restart. */
  reopen(): MemoryProvider {
    return new MemoryProvider(this.#options, this.#sharedState)
  }

  /** The network of a sandbox, for programs that should obey it. Undefined: none was set. */
  networkOf(sandboxId: string): NormalNetwork | undefined {
    return this.#sharedState.sandboxes.get(sandboxId)?.network
  }

  /** The runtime of a sandbox, for programs that should have its version. Undefined: none was set. */
  runtimeOf(sandboxId: string): string | undefined {
    return this.#sharedState.sandboxes.get(sandboxId)?.recipe.runtime
  }

  /** Programs that still run in a sandbox, even a destroyed one, to test for leftovers. */
  running(sandboxId: string): string[] {
    return this.#sharedState.running(sandboxId)
  }
}

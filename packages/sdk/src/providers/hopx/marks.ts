import { SandboxError } from '../../errors.ts'
import type { CallOptions } from '../../spec/index.ts'
import type { Account } from './account.ts'
import { Guest } from './guest/guest.ts'
import { type Mark, markOf, markVariable, statusOf, type VendorSandbox } from './translation.ts'

/** The marks of sandboxes. They never change, and only a running sandbox tells its own, so they are kept. */
export class Marks {
  readonly #account: Account
  readonly #known = new Map<string, Mark | undefined>()

  constructor(account: Account) {
    this.#account = account
  }

  set(sandboxId: string, mark: Mark | undefined): void {
    if (this.#known.size >= mostKnown) this.#known.delete(this.#known.keys().next().value!)
    this.#known.set(sandboxId, mark)
  }

  forget(sandboxId: string): void {
    this.#known.delete(sandboxId)
  }

  /** Undefined if the sandbox is not ours, or cannot tell: it does not run, or does not answer. */
  async of(vendor: VendorSandbox, call: CallOptions): Promise<Mark | undefined> {
    if (this.#known.has(vendor.id)) return this.#known.get(vendor.id)
    if (statusOf(vendor) !== 'running') return undefined
    try {
      const mark = markOf((await new Guest(this.#account, vendor).env(call))[markVariable])
      this.set(vendor.id, mark)
      return mark
    } catch (error) {
      // One broken sandbox of the account must not hide the others.
      if (SandboxError.is(error, 'unauthenticated', 'rate_limited', 'aborted', 'sdk_missing')) throw error
      return undefined
    }
  }
}

const mostKnown = 10_000

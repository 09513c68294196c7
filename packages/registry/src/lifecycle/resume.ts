import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { Operation, SandboxRow } from '../store/index.ts'
import type { ProgressStep } from '../types.ts'
import { hasNextNetwork } from './network.ts'
import type { Made } from './run.ts'
import { type Passenger, SingleFlight } from './single-flight.ts'
import { start } from './start.ts'
import { observe } from './truth.ts'

/** Returns running sandboxes. Callers of one sandbox share the work, in this process and across processes. */
export class Resume {
  readonly #context: Context
  readonly #flights = new SingleFlight<Made>()

  constructor(context: Context) {
    this.#context = context
  }

  of(row: Pick<SandboxRow, 'id'>, caller: Passenger): Promise<Made> {
    return this.#flights.join(row.id, caller, (shared) => this.#resume(row.id, shared))
  }

  async #resume(id: string, { signal, onProgress }: Required<Passenger>): Promise<Made> {
    const used = await this.#use(id, signal)
    if (used) return used
    // If another process starts it meanwhile, it runs when this one gets the lease.
    const made = await this.#context.leases.operate(
      id,
      'start',
      (lease) => start({ context: this.#context, lease, onProgress }),
      { signal, onWait: (row) => onProgress(waiting(row)) },
    )
    // Without `unless`, the wait ends with the lease or an error.
    return made!
  }

  /** A running sandbox needs no lease. Undefined: it has to be started, or another operation changes it. */
  async #use(id: string, signal: AbortSignal): Promise<Made | undefined> {
    const { store, providers, timeouts, now } = this.#context
    const row = await store.sandboxes.byId(id)
    if (row?.live !== 1) throw destroyed(row)
    if (!isUsable(row)) return undefined
    const provider = await providers.of(row)
    const sandboxId = row.provider_sandbox_id!
    const observed = await observe({ provider, sandboxId, name: row.name, signal, timeouts })
    if (observed.status !== 'running') return undefined
    const at = now()
    await store.sandboxes.noteSeen(row, {
      last_used_at: at,
      last_checked_at: at,
      error_message: null,
      expires_at: observed.expiresAt?.getTime() ?? null,
    })
    // Another process may have replaced or destroyed it while the provider answered.
    const after = await store.sandboxes.byId(id)
    if (after?.live !== 1) throw destroyed(after ?? row)
    const isSame = after.provider_sandbox_id === sandboxId && after.incarnation === row.incarnation
    return isSame && isUsable(after) ? { row: after, handle: observed.handle } : undefined
  }
}

/** Whether the row's sandbox can be used as it is, if the provider agrees. */
function isUsable(row: SandboxRow): boolean {
  const isChanging = row.operation !== null && !harmless.includes(row.operation)
  return row.status === 'running' && row.provider_sandbox_id !== null && !isChanging && !hasNextNetwork(row)
}

const harmless: readonly Operation[] = ['check']

function waiting({ name, operation }: SandboxRow): ProgressStep {
  const does = operation === null ? 'works on it' : (doing[operation] ?? 'works on it')
  return { step: 'wait', message: `another process ${does}: “${name}”` }
}

const doing: Partial<Record<Operation, string>> = {
  create: 'creates it',
  start: 'starts it',
  restore: 'restores it',
  stop: 'stops it',
  snapshot: 'saves it',
  destroy: 'destroys it',
  network: 'changes its network',
}

export function destroyed(row: { name: string } | undefined): SandboxError {
  return new SandboxError('not_found', row ? `“${row.name}” was destroyed.` : 'The sandbox was destroyed.', {
    hint: 'Create it again.',
  })
}

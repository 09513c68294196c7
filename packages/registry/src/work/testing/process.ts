import type { SandboxProvider } from '@sandkasten/sdk'
import type { Context, Timeouts } from '../../context.ts'
import { BeatWatch, Leases } from '../../leases/index.ts'
import { Resume, recover, ScopedSandboxes } from '../../lifecycle/index.ts'
import { type DatabaseLocation, openStore } from '../../store/index.ts'
import type { Scope } from '../../types.ts'
import { DueWork, dueAt, type HeldOptions, HeldSandboxes, hold, Uses } from '../index.ts'

export interface ProcessOptions extends HeldOptions {
  readonly now?: () => number
  readonly timeouts?: Partial<Timeouts>
  readonly mostWaitMs?: number
  readonly limits?: Context['limits']
}

/** A registry as one process has it. Several on one database are like several processes, but for the process id. */
export type TestProcess = Awaited<ReturnType<typeof openProcess>>

export async function openProcess(
  location: DatabaseLocation,
  providers: readonly SandboxProvider[],
  { now = Date.now, timeouts, mostWaitMs, limits, ...heldOptions }: ProcessOptions = {},
) {
  const store = await openStore(location, { now })
  const watch = new BeatWatch()
  const uses = new Uses(store.holds, watch, now)
  const held = new HeldSandboxes(store.sandboxes, now, heldOptions)
  const chosen = (provider: SandboxProvider) => ({ provider, credentialsId: null })
  const named = (name: string | undefined) =>
    chosen(providers.find((one) => name === undefined || one.name === name)!)
  const context: Context = {
    registryId: await store.facts.registryId(),
    store,
    leases: new Leases(
      store.sandboxes,
      watch,
      (lease, operation) => recover(context, lease, operation),
      dueAt,
    ),
    providers: {
      choose: async (_, name) => named(name),
      check: () => {},
      of: async ({ provider }) => named(provider).provider,
      all: async () => providers.map(chosen),
    },
    secrets: { seal: noSecrets, open: noSecrets, storing: (work) => work() },
    withSecretsOf: (_, work) => work(),
    uses,
    limits: limits ?? { perGuild: 100, perChannel: 20 },
    timeouts: { lookMs: 1_000, changeMs: 5_000, settleMs: 400, cleanUpMs: 500, ...timeouts },
    now,
  }
  const resume = new Resume(context)
  const rooms = { context, resume, hold: hold.bind(undefined, { uses, held }) }
  return {
    context,
    uses,
    held,
    in: (scope?: Scope) => new ScopedSandboxes(rooms, scope),
    sandboxes: new ScopedSandboxes(rooms),
    work: new DueWork(context, { mostWaitMs }),
    row: async (name: string) => (await store.sandboxes.byName({ app_id: '', guild_id: '' }, name))!,
    close: async () => {
      held.close()
      await uses.close()
      await context.leases.close()
      await store.close()
    },
  }
}

function noSecrets(): never {
  throw new Error('These sandboxes have no secrets.')
}

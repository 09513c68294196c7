import type { ProviderKind } from '@sandkasten/sdk/auto'
import type { Context, Limits, Timeouts } from './context.ts'
import { keyFileOf, openCredentials } from './credentials/index.ts'
import { BeatWatch, Leases } from './leases/index.ts'
import { Resume, type Rooms, recover, refreshSecrets, ScopedSandboxes } from './lifecycle/index.ts'
import type { Registry } from './registry.ts'
import { type DatabaseLocation, defaultLocation, openStore } from './store/index.ts'
import { DueWork, dueAt, HeldSandboxes, hasWorker, hold, reconcile, SteadyTime, Uses } from './work/index.ts'

export interface OpenRegistryOptions {
  /**
   * Default: the Postgres database of `SANDKASTEN_REGISTRY_URL`, or an SQLite file in the folder `registry` of
   * `dataDir`. The key is beside the file, unless `SANDKASTEN_SECRET_KEY` is set.
   */
  readonly database?: DatabaseLocation
  /** Default: `SANDKASTEN_HOME`, or the folder that the daemon and the engine use. */
  readonly dataDir?: string
  /** The providers that can be used. Default: `providerKinds` of the SDK. */
  readonly kinds?: readonly ProviderKind[]
  /** Used when none is set up, and the environment selects none. */
  readonly defaultProvider?: string
  readonly limits?: Partial<Limits>
  readonly timeouts?: Partial<Timeouts>
  /** Default: the variables of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

/** Opens the registry of named sandboxes. Several processes may have it open. */
export async function openRegistry({
  database,
  dataDir,
  kinds,
  defaultProvider,
  limits,
  timeouts,
  env: given = process.env,
}: OpenRegistryOptions = {}): Promise<Registry> {
  const env = dataDir === undefined ? given : { ...given, SANDKASTEN_HOME: dataDir }
  const location = database ?? (await defaultLocation(env))
  const { now } = new SteadyTime()
  const store = await openStore(location, { now })
  try {
    const keyFile = await keyFileOf(location, store, env)
    const rooms = await openCredentials({ store, keyFile, kinds, defaultProvider, env, now })
    const { secrets, stored, providers, credentials } = rooms
    const watch = new BeatWatch()
    const uses = new Uses(store.holds, watch, now)
    const context: Context = {
      registryId: await store.facts.registryId(),
      store,
      leases: new Leases(store.sandboxes, watch, (...dead) => recover(context, ...dead), dueAt),
      providers,
      secrets,
      withSecretsOf: (scope, work) => stored.within(scope, work),
      uses,
      limits: { ...defaultLimits, ...limits },
      timeouts: { ...defaultTimeouts, ...timeouts },
      now,
    }
    stored.onChange = (scope, name) => refreshSecrets(context, scope, name)
    const held = new HeldSandboxes(store.sandboxes, now)
    const due = new DueWork(context)
    const shared: Rooms = {
      context,
      resume: new Resume(context),
      hold: (resume, options) => hold({ uses, held }, resume, options),
    }
    const close = closeOnce([
      () => held.close(),
      () => uses.close(),
      () => context.leases.close(),
      () => providers.close(),
      () => store.close(),
    ])
    return {
      id: context.registryId,
      credentials,
      secrets: stored,
      in: (scope) => new ScopedSandboxes(shared, scope),
      doDueWork: (options) => due.once(options),
      work: (options) => due.loop(options),
      hasWorker: () => hasWorker(context),
      reconcile: (options) => reconcile(context, options),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

const defaultLimits: Limits = { perGuild: 100, perChannel: 20 }

const defaultTimeouts: Timeouts = {
  lookMs: 30_000,
  changeMs: 10 * 60_000,
  settleMs: 2 * 60_000,
  cleanUpMs: 30_000,
}

/** Closes the rooms in this order, each also if an earlier one fails. Operations that still run fail. */
function closeOnce(rooms: ReadonlyArray<() => unknown>): () => Promise<void> {
  let closing: Promise<void> | undefined
  const close = async () => {
    const problems: unknown[] = []
    for (const room of rooms) {
      try {
        await room()
      } catch (error) {
        problems.push(error)
      }
    }
    if (problems.length > 0) throw problems.length === 1 ? problems[0] : new AggregateError(problems)
  }
  return () => {
    closing ??= close()
    return closing
  }
}
